/* A mock of libnvidia-ml.so.1: NVML's symbols, layouts and error codes over a text file.
 *
 * The real bindings run against it unmodified. What the machine is, and how it breaks, stands
 * in the file that state.h describes. Every function begins with a gate: it takes the lock,
 * reads the file again if it changed, hangs or fails as the file says, and answers
 * UNINITIALIZED, GPU_IS_LOST or INVALID_ARGUMENT where NVML would. Behind the gate a function
 * is a few lines that look a value up; a value that is missing is NOT_SUPPORTED.
 */
#define _GNU_SOURCE
#include "state.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---------------------------------------------------------------- types */

typedef enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4,
    ALREADY_INITIALIZED = 5, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, INSUFFICIENT_POWER = 8,
    DRIVER_NOT_LOADED = 9, TIMEOUT = 10, IRQ_ISSUE = 11, LIBRARY_NOT_FOUND = 12,
    FUNCTION_NOT_FOUND = 13, CORRUPTED_INFOROM = 14, GPU_IS_LOST = 15, RESET_REQUIRED = 16,
    OPERATING_SYSTEM = 17, LIB_RM_VERSION_MISMATCH = 18, IN_USE = 19, MEMORY = 20, NO_DATA = 21,
    ARGUMENT_VERSION_MISMATCH = 25, NOT_READY = 27, GPU_NOT_FOUND = 28, INVALID_STATE = 29, UNKNOWN = 999
} Return;

typedef unsigned int u32;
typedef unsigned long long u64;

/* What handles point to: a card, a MIG device of it, or a GPU instance of it. */
typedef struct { int card, instance; } Device;
typedef struct { int card, gi; } GpuInstance;

typedef struct {
    char busIdLegacy[16];
    u32 domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} PciInfo;
typedef struct { u64 total, free, used; } MemoryInfo;
typedef struct { u32 version; u64 total, reserved, free, used; } MemoryInfo2;
typedef struct { u32 gpu, memory; } Utilization;
typedef struct { u32 pid; u64 usedGpuMemory; u32 gpuInstanceId, computeInstanceId; } ProcessInfo;
typedef struct { u32 pid; u64 timeStamp; u32 smUtil, memUtil, encUtil, decUtil; } ProcessUtilization;
typedef struct {
    Device *device;
    u64 eventType, eventData;
    u32 gpuInstanceId, computeInstanceId;
} EventData;
typedef struct {
    u32 multiprocessorCount, sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount;
    u32 sharedJpegCount, sharedOfaCount, gpuInstanceSliceCount, computeInstanceSliceCount;
    u64 memorySizeMB;
} Attributes;
typedef struct { u32 start, size; } Placement;
typedef struct { Device *device; u32 id, profileId; Placement placement; } GpuInstanceInfo;
typedef struct {
    u32 id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount;
    u32 copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount;
    u64 memorySizeMB;
} ProfileInfo;
typedef struct {
    u32 version, id, isP2pSupported, sliceCount, instanceCount, multiprocessorCount;
    u32 copyEngineCount, decoderCount, encoderCount, jpegCount, ofaCount;
    u64 memorySizeMB;
    char name[96];
} ProfileInfo2;
typedef struct { u32 version, sensorType; int temperature; } Temperature;
/* NVIDIA's header has a single byte for the state and the bindings read a word: one word serves both. */
typedef struct { unsigned char clusterUuid[16]; u32 status, cliqueId, state; } FabricInfo;
typedef struct {
    u32 version;
    unsigned char clusterUuid[16];
    u32 status, cliqueId, state, healthMask;
} FabricInfo2;
typedef union { double dVal; u32 uiVal; unsigned long ulVal; u64 ullVal; long long sllVal; } Value;
typedef struct {
    u32 fieldId, scopeId; long long timestamp, latencyUsec; u32 valueType, nvmlReturn; Value value;
} FieldValue;

/* ---------------------------------------------------------------- layouts, for a test to compare */

typedef struct { const char *type, *field; size_t offset, size; } Layout;

#define WHOLE(name, type) {name, "", 0, sizeof(type)}
#define FIELD(name, type, field) {name, #field, offsetof(type, field), sizeof(((type *)0)->field)}

static const Layout LAYOUTS[] = {
    WHOLE("nvmlPciInfo_t", PciInfo), FIELD("nvmlPciInfo_t", PciInfo, domain),
    FIELD("nvmlPciInfo_t", PciInfo, bus), FIELD("nvmlPciInfo_t", PciInfo, pciSubSystemId),
    FIELD("nvmlPciInfo_t", PciInfo, busId),
    WHOLE("c_nvmlMemory_t", MemoryInfo), FIELD("c_nvmlMemory_t", MemoryInfo, used),
    WHOLE("c_nvmlMemory_v2_t", MemoryInfo2), FIELD("c_nvmlMemory_v2_t", MemoryInfo2, total),
    FIELD("c_nvmlMemory_v2_t", MemoryInfo2, reserved), FIELD("c_nvmlMemory_v2_t", MemoryInfo2, used),
    WHOLE("c_nvmlUtilization_t", Utilization), FIELD("c_nvmlUtilization_t", Utilization, memory),
    WHOLE("c_nvmlProcessInfo_v3_t", ProcessInfo),
    FIELD("c_nvmlProcessInfo_v3_t", ProcessInfo, usedGpuMemory),
    FIELD("c_nvmlProcessInfo_v3_t", ProcessInfo, computeInstanceId),
    WHOLE("c_nvmlProcessUtilizationSample_t", ProcessUtilization),
    FIELD("c_nvmlProcessUtilizationSample_t", ProcessUtilization, timeStamp),
    FIELD("c_nvmlProcessUtilizationSample_t", ProcessUtilization, decUtil),
    WHOLE("c_nvmlEventData_t", EventData), FIELD("c_nvmlEventData_t", EventData, eventType),
    FIELD("c_nvmlEventData_t", EventData, eventData),
    FIELD("c_nvmlEventData_t", EventData, computeInstanceId),
    WHOLE("c_nvmlDeviceAttributes", Attributes), FIELD("c_nvmlDeviceAttributes", Attributes, memorySizeMB),
    FIELD("c_nvmlDeviceAttributes", Attributes, computeInstanceSliceCount),
    WHOLE("c_nvmlGpuInstancePlacement_t", Placement), FIELD("c_nvmlGpuInstancePlacement_t", Placement, size),
    WHOLE("c_nvmlGpuInstanceInfo_t", GpuInstanceInfo), FIELD("c_nvmlGpuInstanceInfo_t", GpuInstanceInfo, id),
    FIELD("c_nvmlGpuInstanceInfo_t", GpuInstanceInfo, profileId),
    FIELD("c_nvmlGpuInstanceInfo_t", GpuInstanceInfo, placement),
    WHOLE("c_nvmlGpuInstanceProfileInfo_t", ProfileInfo),
    FIELD("c_nvmlGpuInstanceProfileInfo_t", ProfileInfo, memorySizeMB),
    WHOLE("c_nvmlGpuInstanceProfileInfo_v2_t", ProfileInfo2),
    FIELD("c_nvmlGpuInstanceProfileInfo_v2_t", ProfileInfo2, memorySizeMB),
    FIELD("c_nvmlGpuInstanceProfileInfo_v2_t", ProfileInfo2, name),
    WHOLE("c_nvmlTemperature_v1_t", Temperature), FIELD("c_nvmlTemperature_v1_t", Temperature, temperature),
    WHOLE("c_nvmlGpuFabricInfo_t", FabricInfo), FIELD("c_nvmlGpuFabricInfo_t", FabricInfo, state),
    WHOLE("c_nvmlGpuFabricInfo_v2_t", FabricInfo2),
    FIELD("c_nvmlGpuFabricInfo_v2_t", FabricInfo2, healthMask),
    WHOLE("c_nvmlFieldValue_t", FieldValue), FIELD("c_nvmlFieldValue_t", FieldValue, nvmlReturn),
    FIELD("c_nvmlFieldValue_t", FieldValue, value),
};

/* One line of the table, `TYPE FIELD OFFSET SIZE`; 0 when there are no more. Not part of NVML. */
int mockLayout(u32 line, char *text, u32 size) {
    if (line >= sizeof LAYOUTS / sizeof *LAYOUTS) return 0;
    const Layout *each = &LAYOUTS[line];
    const char *field = *each->field ? each->field : "-";
    snprintf(text, size, "%s %s %zu %zu", each->type, field, each->offset, each->size);
    return 1;
}

/* ---------------------------------------------------------------- the session and its handles */

/* What was true at init: which cards there were, for NVML counts them once, and how often each had
 * been reset; a reset shows by being another one now. */
static struct { int users, counted[MOST_CARDS]; long long driver, cards[MOST_CARDS]; } session;
static Device cards[MOST_CARDS], parts[MOST_CARDS][MOST_INSTANCES];
static GpuInstance instances[MOST_CARDS][MOST_INSTANCES];

static int is_there(int card) {
    return state_text("card.%d.uuid", card) && !state_number(0, "card.%d.absent", card);
}

static int is_lost(int card) {
    return state_number(0, "card.%d.lost", card)
           || state_number(0, "card.%d.reset", card) != session.cards[card];
}

static int card_at(u32 index) {
    for (int card = 0; card < MOST_CARDS; card++)
        if (session.counted[card] && index-- == 0) return card;
    return -1;
}

static u32 counted_before(int end) {
    u32 counted = 0;
    for (int card = 0; card < end; card++) counted += session.counted[card] != 0;
    return counted;
}

static void remember_session(void) {
    session.driver = state_number(0, "driver.reset");
    for (int card = 0; card < MOST_CARDS; card++) {
        session.cards[card] = state_number(0, "card.%d.reset", card);
        session.counted[card] = is_there(card);
        cards[card] = (Device){card, -1};
        for (int each = 0; each < MOST_INSTANCES; each++) {
            parts[card][each] = (Device){card, each};
            instances[card][each] = (GpuInstance){card, each};
        }
    }
}

/* ---------------------------------------------------------------- the gate */

static void hang(const char *call, int card) {
    while (state_number(0, "hang.%s", call) || (card >= 0 && state_number(0, "card.%d.hang.%s", card, call)))
        state_pause();
}

static Return ordered(const char *call, int card) {
    const long long error = state_number(0, "error.%s", call);
    return (Return)(card < 0 ? error : state_number(error, "card.%d.error.%s", card, call));
}

static Return driver_error(void) {
    if (!state_text("driver.version")) return DRIVER_NOT_LOADED;
    return (Return)state_number(0, "driver.error");
}

/* A driver that was loaded anew knows nothing of those who had opened the one before. */
static int is_open(void) {
    return session.users && state_number(0, "driver.reset") == session.driver;
}

static Return enter(const char *call, int card) {
    state_lock();
    state_refresh();
    hang(call, card);
    const Return error = driver_error();
    if (error) return error;
    return is_open() ? ordered(call, card) : UNINITIALIZED;
}

static Return enter_device(const char *call, const Device *device) {
    const Return error = enter(call, device ? device->card : -1);
    if (error) return error;
    if (!device) return INVALID_ARGUMENT;
    return is_lost(device->card) || !is_there(device->card) ? GPU_IS_LOST : SUCCESS;
}

static void leave(const char **call) {
    (void)call;
    state_unlock();
}

/* The lock is held from the gate to the end of the function, whichever way it returns. */
#define GATE(entered)                                                                          \
    __attribute__((cleanup(leave))) const char *call = __func__;                               \
    const Return refused = (entered);                                                          \
    if (refused) return refused

#define DEVICE_GATE GATE(enter_device(call, device))
#define SYSTEM_GATE GATE(enter(call, -1))

/* ---------------------------------------------------------------- what many functions do */

static Return give_text(char *out, u32 size, const char *value) {
    if (!value) return NOT_SUPPORTED;
    if (strlen(value) >= size) return INSUFFICIENT_SIZE;
    strcpy(out, value);
    return SUCCESS;
}

static Return give_u32(u32 *out, const char *value) {
    if (!value) return NOT_SUPPORTED;
    *out = (u32)strtoll(value, NULL, 0);
    return SUCCESS;
}

static Return give_two(u32 *one, u32 *other, const char *value) {
    return value && sscanf(value, "%u %u", one, other) == 2 ? SUCCESS : NOT_SUPPORTED;
}

/* A function that gives one text, one number, or two numbers of a card. */
#define TEXT(name, key)                                                                        \
    Return name(Device *device, char *out, u32 size) {                                         \
        DEVICE_GATE;                                                                           \
        return give_text(out, size, state_text("card.%d." key, device->card));                 \
    }
#define NUMBER(name, key)                                                                      \
    Return name(Device *device, u32 *out) {                                                    \
        DEVICE_GATE;                                                                           \
        return give_u32(out, state_text("card.%d." key, device->card));                        \
    }
#define NUMBER_OF(name, key)                                                                   \
    Return name(Device *device, u32 which, u32 *out) {                                         \
        DEVICE_GATE;                                                                           \
        return give_u32(out, state_text("card.%d." key ".%u", device->card, which));           \
    }
#define PAIR(name, key)                                                                        \
    Return name(Device *device, u32 *one, u32 *other) {                                        \
        DEVICE_GATE;                                                                           \
        return give_two(one, other, state_text("card.%d." key, device->card));                 \
    }

/* ---------------------------------------------------------------- library and driver */

Return nvmlInitWithFlags(u32 flags) {
    (void)flags;
    __attribute__((cleanup(leave))) const char *call = __func__;
    state_lock();
    state_refresh();
    hang(call, -1);
    const Return error = driver_error() ? driver_error() : ordered(call, -1);
    if (error) return error;
    if (!session.users++) remember_session();
    return SUCCESS;
}

Return nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

Return nvmlShutdown(void) {
    __attribute__((cleanup(leave))) const char *call = __func__;
    state_lock();
    state_refresh();
    hang(call, -1);
    if (!session.users) return UNINITIALIZED;
    session.users--;
    return SUCCESS;
}

static const struct { Return code; const char *words; } WORDS[] = {
    {SUCCESS, "Success"}, {UNINITIALIZED, "Uninitialized"}, {INVALID_ARGUMENT, "Invalid Argument"},
    {NOT_SUPPORTED, "Not Supported"}, {NO_PERMISSION, "Insufficient Permissions"},
    {ALREADY_INITIALIZED, "Already Initialized"}, {NOT_FOUND, "Not Found"},
    {INSUFFICIENT_SIZE, "Insufficient Size"}, {INSUFFICIENT_POWER, "Insufficient External Power"},
    {DRIVER_NOT_LOADED, "Driver Not Loaded"}, {TIMEOUT, "Timeout"}, {IRQ_ISSUE, "Interrupt Request Issue"},
    {LIBRARY_NOT_FOUND, "NVML Shared Library Not Found"}, {FUNCTION_NOT_FOUND, "Function Not Found"},
    {CORRUPTED_INFOROM, "Corrupted infoROM"}, {GPU_IS_LOST, "GPU is lost"},
    {RESET_REQUIRED, "GPU requires reset"}, {OPERATING_SYSTEM, "GPU access blocked by the operating system"},
    {LIB_RM_VERSION_MISMATCH, "Driver/library version mismatch"}, {IN_USE, "In use by another client"},
    {MEMORY, "Insufficient Memory"}, {NO_DATA, "No data"},
    {ARGUMENT_VERSION_MISMATCH, "Version mismatch between input/output argument versions"},
    {NOT_READY, "System is not ready"}, {GPU_NOT_FOUND, "No GPUs were found"},
    {INVALID_STATE, "Invalid state"},
};

const char *nvmlErrorString(Return code) {
    for (size_t each = 0; each < sizeof WORDS / sizeof *WORDS; each++)
        if (WORDS[each].code == code) return WORDS[each].words;
    return "Unknown Error";
}

Return nvmlSystemGetDriverVersion(char *out, u32 size) {
    SYSTEM_GATE;
    return give_text(out, size, state_text("driver.version"));
}

Return nvmlSystemGetNVMLVersion(char *out, u32 size) {
    SYSTEM_GATE;
    return give_text(out, size, state_text("driver.nvml"));
}

Return nvmlSystemGetCudaDriverVersion(u32 *out) {
    SYSTEM_GATE;
    return give_u32(out, state_text("driver.cuda"));
}

Return nvmlSystemGetCudaDriverVersion_v2(u32 *out) {
    SYSTEM_GATE;
    return give_u32(out, state_text("driver.cuda"));
}

/* ---------------------------------------------------------------- finding cards */

Return nvmlDeviceGetCount_v2(u32 *out) {
    SYSTEM_GATE;
    *out = counted_before(MOST_CARDS);
    return SUCCESS;
}

static Return give_card(Device **out, int card) {
    if (card < 0) return NOT_FOUND;
    if (is_lost(card) || !is_there(card)) return GPU_IS_LOST;
    *out = &cards[card];
    return SUCCESS;
}

Return nvmlDeviceGetHandleByIndex_v2(u32 index, Device **out) {
    state_lock();
    state_refresh();
    const int card = card_at(index);
    state_unlock();
    GATE(enter(call, card));
    return card < 0 ? INVALID_ARGUMENT : give_card(out, card);
}

static int card_with(const char *key, const char *value) {
    for (int card = 0; card < MOST_CARDS; card++) {
        const char *found = is_there(card) ? state_text("card.%d.%s", card, key) : NULL;
        if (found && !strcasecmp(found, value)) return card;
    }
    return -1;
}

Return nvmlDeviceGetHandleByUUID(const char *uuid, Device **out) {
    SYSTEM_GATE;
    return give_card(out, card_with("uuid", uuid));
}

Return nvmlDeviceGetHandleByPciBusId_v2(const char *bus, Device **out) {
    SYSTEM_GATE;
    return give_card(out, card_with("bus", bus));
}

Return nvmlDeviceGetIndex(Device *device, u32 *out) {
    DEVICE_GATE;
    *out = counted_before(device->card);
    return SUCCESS;
}

/* Modes are kept for as long as the process: no test asks another one for them. */
static u32 compute_modes[MOST_CARDS];

Return nvmlDeviceSetComputeMode(Device *device, u32 mode) {
    DEVICE_GATE;
    compute_modes[device->card] = mode;
    return SUCCESS;
}

Return nvmlDeviceGetComputeMode(Device *device, u32 *out) {
    DEVICE_GATE;
    *out = compute_modes[device->card];
    return SUCCESS;
}

/* ---------------------------------------------------------------- what a card is */

TEXT(nvmlDeviceGetName, "name")
TEXT(nvmlDeviceGetSerial, "serial")
NUMBER(nvmlDeviceGetMinorNumber, "minor")
NUMBER(nvmlDeviceGetModuleId, "module")
NUMBER(nvmlDeviceGetBrand, "brand")
NUMBER(nvmlDeviceGetArchitecture, "architecture")
NUMBER(nvmlDeviceGetNumaNodeId, "numa")
PAIR(nvmlDeviceGetCudaComputeCapability, "capability")

typedef struct {
    char uuid[LONGEST_VALUE];
    u32 gi, ci, mib, gi_slices, ci_slices, profile, start, size;
} Part;

static int read_part(Part *part, int card, int each) {
    const char *line = state_text("card.%d.mig.%d", card, each);
    return line && sscanf(line, "%255s %u %u %u %u %u %u %u %u", part->uuid, &part->gi, &part->ci,
                          &part->mib, &part->gi_slices, &part->ci_slices, &part->profile, &part->start,
                          &part->size) == 9;
}

Return nvmlDeviceGetUUID(Device *device, char *out, u32 size) {
    DEVICE_GATE;
    Part part;
    if (device->instance < 0) return give_text(out, size, state_text("card.%d.uuid", device->card));
    return read_part(&part, device->card, device->instance) ? give_text(out, size, part.uuid) : NOT_FOUND;
}

static Return give_pci(PciInfo *out, const char *bus) {
    memset(out, 0, sizeof *out);
    if (!bus || sscanf(bus, "%x:%x:%x", &out->domain, &out->bus, &out->device) != 3) return NOT_SUPPORTED;
    snprintf(out->busId, sizeof out->busId, "%08X:%02X:%02X.0", out->domain, out->bus & 0xff,
             out->device & 0xff);
    snprintf(out->busIdLegacy, sizeof out->busIdLegacy, "%04X:%02X:%02X.0", out->domain & 0xffff,
             out->bus & 0xff, out->device & 0xff);
    return SUCCESS;
}

Return nvmlDeviceGetPciInfo_v3(Device *device, PciInfo *out) {
    DEVICE_GATE;
    return give_pci(out, state_text("card.%d.bus", device->card));
}

/* ---------------------------------------------------------------- how a card fares */

static Return read_memory(const Device *device, MemoryInfo2 *out) {
    Part part;
    const char *line = state_text("card.%d.memory", device->card);
    if (!line || sscanf(line, "%llu %llu %llu", &out->total, &out->reserved, &out->used) != 3)
        return NOT_SUPPORTED;
    if (device->instance >= 0 && read_part(&part, device->card, device->instance)) {
        out->total = (u64)part.mib << 20;
        out->reserved = out->used = 0;
    }
    out->free = out->total - out->reserved - out->used;
    return SUCCESS;
}

Return nvmlDeviceGetMemoryInfo(Device *device, MemoryInfo *out) {
    DEVICE_GATE;
    MemoryInfo2 found;
    const Return read = read_memory(device, &found);
    if (read) return read;
    *out = (MemoryInfo){found.total, found.free, found.used + found.reserved};
    return SUCCESS;
}

Return nvmlDeviceGetMemoryInfo_v2(Device *device, MemoryInfo2 *out) {
    DEVICE_GATE;
    if (out->version != (sizeof *out | 2u << 24)) return ARGUMENT_VERSION_MISMATCH;
    return read_memory(device, out);
}

Return nvmlDeviceGetUtilizationRates(Device *device, Utilization *out) {
    DEVICE_GATE;
    return give_two(&out->gpu, &out->memory, state_text("card.%d.utilization", device->card));
}

Return nvmlDeviceGetTemperature(Device *device, u32 sensor, u32 *out) {
    DEVICE_GATE;
    return sensor ? INVALID_ARGUMENT : give_u32(out, state_text("card.%d.temperature", device->card));
}

Return nvmlDeviceGetTemperatureV(Device *device, Temperature *out) {
    DEVICE_GATE;
    if (out->version != (sizeof *out | 1u << 24)) return ARGUMENT_VERSION_MISMATCH;
    return give_u32((u32 *)&out->temperature, state_text("card.%d.temperature", device->card));
}

NUMBER_OF(nvmlDeviceGetTemperatureThreshold, "threshold")
NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, "pages")
NUMBER(nvmlDeviceGetPowerUsage, "power")
NUMBER(nvmlDeviceGetEnforcedPowerLimit, "power.limit")
NUMBER_OF(nvmlDeviceGetClockInfo, "clock")
NUMBER_OF(nvmlDeviceGetMaxClockInfo, "clock.max")
PAIR(nvmlDeviceGetEccMode, "ecc.mode")
PAIR(nvmlDeviceGetEncoderUtilization, "encoder")
PAIR(nvmlDeviceGetDecoderUtilization, "decoder")

Return nvmlDeviceGetTotalEccErrors(Device *device, u32 error, u32 counter, u64 *out) {
    DEVICE_GATE;
    const char *value = state_text("card.%d.ecc.%u.%u", device->card, error, counter);
    if (!value) return NOT_SUPPORTED;
    *out = strtoull(value, NULL, 0);
    return SUCCESS;
}

Return nvmlDeviceGetRemappedRows(Device *device, u32 *corrected, u32 *uncorrected, u32 *pending,
                                 u32 *failed) {
    DEVICE_GATE;
    const char *line = state_text("card.%d.rows", device->card);
    return line && sscanf(line, "%u %u %u %u", corrected, uncorrected, pending, failed) == 4
               ? SUCCESS : NOT_SUPPORTED;
}

Return nvmlDeviceGetFieldValues(Device *device, int many, FieldValue *out) {
    enum { UNSIGNED_LONG_LONG = 3 };
    DEVICE_GATE;
    for (int each = 0; each < many; each++) {
        const char *value = state_text("card.%d.field.%u", device->card, out[each].fieldId);
        out[each].nvmlReturn = value ? SUCCESS : NOT_SUPPORTED;
        out[each].valueType = UNSIGNED_LONG_LONG;
        out[each].value.ullVal = value ? strtoull(value, NULL, 0) : 0;
    }
    return SUCCESS;
}

/* ---------------------------------------------------------------- where a card sits */

static Return between(const char *table, const Device *device, const Device *peer, u32 *out) {
    if (!peer) return INVALID_ARGUMENT;
    const int low = device->card < peer->card ? device->card : peer->card;
    return give_u32(out, state_text("%s.%d.%d", table, low, device->card + peer->card - low));
}

Return nvmlDeviceGetTopologyCommonAncestor(Device *device, Device *peer, u32 *out) {
    DEVICE_GATE;
    return between("ancestor", device, peer, out);
}

Return nvmlDeviceGetP2PStatus(Device *device, Device *peer, u32 index, u32 *out) {
    (void)index;
    DEVICE_GATE;
    return between("p2p", device, peer, out);
}

static Return give_mask(unsigned long *out, u32 words, const char *value) {
    if (!value || !words) return NOT_SUPPORTED;
    memset(out, 0, words * sizeof *out);
    *out = strtoul(value, NULL, 0);
    return SUCCESS;
}

Return nvmlDeviceGetMemoryAffinity(Device *device, u32 words, unsigned long *out, u32 scope) {
    (void)scope;
    DEVICE_GATE;
    return give_mask(out, words, state_text("card.%d.memories", device->card));
}

Return nvmlDeviceGetCpuAffinityWithinScope(Device *device, u32 words, unsigned long *out, u32 scope) {
    (void)scope;
    DEVICE_GATE;
    return give_mask(out, words, state_text("card.%d.cpus", device->card));
}

Return nvmlDeviceGetCpuAffinity(Device *device, u32 words, unsigned long *out) {
    DEVICE_GATE;
    return give_mask(out, words, state_text("card.%d.cpus", device->card));
}

typedef struct { u32 state, type; char bus[LONGEST_VALUE]; } NvLink;

static Return read_nvlink(NvLink *out, const Device *device, u32 number) {
    const long long many = state_number(0, "card.%d.nvlinks", device->card);
    if (!many) return NOT_SUPPORTED;
    const char *line = state_text("card.%d.nvlink.%u", device->card, number);
    if (number >= many) return INVALID_ARGUMENT;
    const int read = line ? sscanf(line, "%u %u %255s", &out->state, &out->type, out->bus) : 0;
    return read == 3 ? SUCCESS : NOT_SUPPORTED;
}

/* A function that gives one number of one NVLink. */
#define OF_NVLINK(name, value)                                                                 \
    Return name(Device *device, u32 number, u32 *out) {                                        \
        DEVICE_GATE;                                                                           \
        NvLink link;                                                                           \
        const Return read = read_nvlink(&link, device, number);                                \
        if (!read) *out = (value);                                                             \
        return read;                                                                           \
    }

OF_NVLINK(nvmlDeviceGetNvLinkState, link.state)
OF_NVLINK(nvmlDeviceGetNvLinkRemoteDeviceType, link.type)
OF_NVLINK(nvmlDeviceGetNvLinkVersion, (u32)state_number(0, "card.%d.nvlink.version", device->card))

Return nvmlDeviceGetNvLinkCapability(Device *device, u32 number, u32 capability, u32 *out) {
    (void)capability;
    DEVICE_GATE;
    NvLink link;
    const Return read = read_nvlink(&link, device, number);
    if (!read) *out = link.state;
    return read;
}

Return nvmlDeviceGetNvLinkRemotePciInfo_v2(Device *device, u32 number, PciInfo *out) {
    DEVICE_GATE;
    NvLink link;
    const Return read = read_nvlink(&link, device, number);
    return read ? read : give_pci(out, link.bus);
}

static int read_fabric(const Device *device, u32 *state, u32 *status, u32 *clique) {
    const char *line = state_text("card.%d.fabric", device->card);
    return line && sscanf(line, "%u %u %u", state, status, clique) == 3;
}

Return nvmlDeviceGetGpuFabricInfo(Device *device, FabricInfo *out) {
    DEVICE_GATE;
    return read_fabric(device, &out->state, &out->status, &out->cliqueId) ? SUCCESS : NOT_SUPPORTED;
}

Return nvmlDeviceGetGpuFabricInfoV(Device *device, FabricInfo2 *out) {
    DEVICE_GATE;
    return read_fabric(device, &out->state, &out->status, &out->cliqueId) ? SUCCESS : NOT_SUPPORTED;
}

/* ---------------------------------------------------------------- MIG */

PAIR(nvmlDeviceGetMigMode, "mig.mode")
NUMBER(nvmlDeviceGetMaxMigDeviceCount, "mig.max")

static int in_mig_mode(int card) {
    return state_number(0, "card.%d.mig.mode", card) == 1;
}

Return nvmlDeviceGetMigDeviceHandleByIndex(Device *device, u32 index, Device **out) {
    DEVICE_GATE;
    Part part;
    if (!state_text("card.%d.mig.mode", device->card)) return NOT_SUPPORTED;
    if (index >= MOST_INSTANCES) return INVALID_ARGUMENT;
    if (!in_mig_mode(device->card) || !read_part(&part, device->card, (int)index)) return NOT_FOUND;
    *out = &parts[device->card][index];
    return SUCCESS;
}

Return nvmlDeviceIsMigDeviceHandle(Device *device, u32 *out) {
    DEVICE_GATE;
    *out = device->instance >= 0;
    return SUCCESS;
}

Return nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device *device, Device **out) {
    DEVICE_GATE;
    *out = &cards[device->card];
    return device->instance < 0 ? INVALID_ARGUMENT : SUCCESS;
}

static Return part_of(Part *part, const Device *device) {
    if (device->instance < 0) return NOT_SUPPORTED;
    return read_part(part, device->card, device->instance) ? SUCCESS : NOT_FOUND;
}

/* A function that gives one number of one MIG device. */
#define OF_PART(name, field)                                                                   \
    Return name(Device *device, u32 *out) {                                                    \
        DEVICE_GATE;                                                                           \
        Part part;                                                                             \
        const Return read = part_of(&part, device);                                            \
        if (!read) *out = part.field;                                                          \
        return read;                                                                           \
    }

OF_PART(nvmlDeviceGetGpuInstanceId, gi)
OF_PART(nvmlDeviceGetComputeInstanceId, ci)

Return nvmlDeviceGetAttributes_v2(Device *device, Attributes *out) {
    DEVICE_GATE;
    Part part;
    const Return read = part_of(&part, device);
    if (read) return read;
    memset(out, 0, sizeof *out);
    out->gpuInstanceSliceCount = part.gi_slices;
    out->computeInstanceSliceCount = part.ci_slices;
    out->memorySizeMB = part.mib;
    return SUCCESS;
}

static int part_with(Part *part, int card, u32 gi) {
    for (int each = 0; each < MOST_INSTANCES; each++)
        if (read_part(part, card, each) && part->gi == gi) return 1;
    return 0;
}

Return nvmlDeviceGetGpuInstanceById(Device *device, u32 id, GpuInstance **out) {
    DEVICE_GATE;
    Part part;
    if (id >= MOST_INSTANCES || !part_with(&part, device->card, id)) return NOT_FOUND;
    *out = &instances[device->card][id];
    return SUCCESS;
}

Return nvmlDeviceGetGpuInstances(Device *device, u32 profile, GpuInstance **out, u32 *many) {
    DEVICE_GATE;
    Part part;
    *many = 0;
    for (u32 gi = 0; gi < MOST_INSTANCES; gi++)
        if (part_with(&part, device->card, gi) && part.profile == profile)
            out[(*many)++] = &instances[device->card][gi];
    return SUCCESS;
}

Return nvmlGpuInstanceGetInfo(GpuInstance *instance, GpuInstanceInfo *out) {
    GATE(enter(call, instance ? instance->card : -1));
    Part part;
    if (!instance) return INVALID_ARGUMENT;
    if (is_lost(instance->card)) return GPU_IS_LOST;
    if (!part_with(&part, instance->card, (u32)instance->gi)) return NOT_FOUND;
    *out = (GpuInstanceInfo){&cards[instance->card], part.gi, part.profile, {part.start, part.size}};
    return SUCCESS;
}

static Return read_profile(ProfileInfo2 *out, const Device *device, u32 profile) {
    if (profile >= state_number(18, "driver.profiles")) return INVALID_ARGUMENT;
    const char *line = state_text("card.%d.profile.%u", device->card, profile);
    memset(&out->id, 0, sizeof *out - offsetof(ProfileInfo2, id));
    return line && sscanf(line, "%u %u %llu %95[^\n]", &out->id, &out->sliceCount, &out->memorySizeMB,
                          out->name) == 4 ? SUCCESS : NOT_SUPPORTED;
}

Return nvmlDeviceGetGpuInstanceProfileInfoV(Device *device, u32 profile, ProfileInfo2 *out) {
    DEVICE_GATE;
    if (out->version != (sizeof *out | 2u << 24)) return ARGUMENT_VERSION_MISMATCH;
    return read_profile(out, device, profile);
}

Return nvmlDeviceGetGpuInstanceProfileInfo(Device *device, u32 profile, ProfileInfo *out) {
    DEVICE_GATE;
    ProfileInfo2 found;
    const Return read = read_profile(&found, device, profile);
    memset(out, 0, sizeof *out);
    out->id = found.id;
    out->sliceCount = found.sliceCount;
    out->memorySizeMB = found.memorySizeMB;
    return read;
}

/* ---------------------------------------------------------------- processes */

static int read_process(ProcessInfo *out, int card, long long number, char kind) {
    char found;
    const char *line = state_text("card.%d.process.%lld", card, number);
    out->gpuInstanceId = out->computeInstanceId = ~0u;
    return line && sscanf(line, "%c %u %llu %u %u", &found, &out->pid, &out->usedGpuMemory,
                          &out->gpuInstanceId, &out->computeInstanceId) >= 3 && found == kind;
}

/* Tell how many there are, and give them where there is room, as NVML does. */
static Return give_processes(const Device *device, char kind, u32 *many, ProcessInfo *out) {
    const u32 space = out ? *many : 0;
    ProcessInfo each;
    char prefix[64];
    snprintf(prefix, sizeof prefix, "card.%d.process.", device->card);
    *many = 0;
    for (long long number = -1; (number = state_next(prefix, number)) >= 0;) {
        if (!read_process(&each, device->card, number, kind)) continue;
        if (*many < space) out[*many] = each;
        ++*many;
    }
    return *many > space ? INSUFFICIENT_SIZE : SUCCESS;
}

#define PROCESSES(name, kind)                                                                  \
    Return name(Device *device, u32 *many, ProcessInfo *out) {                                 \
        DEVICE_GATE;                                                                           \
        return give_processes(device, kind, many, out);                                        \
    }

PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, 'c')
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, 'g')
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, 'm')

static int read_usage(ProcessUtilization *out, int card, long long number) {
    const char *line = state_text("card.%d.usage.%lld", card, number);
    return line && sscanf(line, "%u %llu %u %u %u %u", &out->pid, &out->timeStamp, &out->smUtil,
                          &out->memUtil, &out->encUtil, &out->decUtil) == 6;
}

Return nvmlDeviceGetProcessUtilization(Device *device, ProcessUtilization *out, u32 *many, u64 since) {
    DEVICE_GATE;
    const u32 space = out ? *many : 0;
    ProcessUtilization each;
    char prefix[64];
    snprintf(prefix, sizeof prefix, "card.%d.usage.", device->card);
    *many = 0;
    for (long long number = -1; (number = state_next(prefix, number)) >= 0;) {
        if (!read_usage(&each, device->card, number) || each.timeStamp <= since) continue;
        if (*many < space) out[*many] = each;
        ++*many;
    }
    if (!*many) return NOT_FOUND;
    return *many > space ? INSUFFICIENT_SIZE : SUCCESS;
}

/* ---------------------------------------------------------------- events */

typedef struct { u64 masks[MOST_CARDS]; long long told; } EventSet;

Return nvmlEventSetCreate(EventSet **out) {
    SYSTEM_GATE;
    EventSet *set = calloc(1, sizeof *set);
    if (!set) return MEMORY;
    set->told = -1;
    for (long long each = -1; (each = state_next("event.", each)) >= 0;) set->told = each;
    *out = set;
    return SUCCESS;
}

Return nvmlEventSetFree(EventSet *set) {
    SYSTEM_GATE;
    free(set);
    return SUCCESS;
}

Return nvmlDeviceGetSupportedEventTypes(Device *device, u64 *out) {
    DEVICE_GATE;
    *out = (u64)state_number(0, "card.%d.events", device->card);
    return SUCCESS;
}

Return nvmlDeviceRegisterEvents(Device *device, u64 types, EventSet *set) {
    DEVICE_GATE;
    const u64 known = (u64)state_number(0, "card.%d.events", device->card);
    if (!set) return INVALID_ARGUMENT;
    if (!known || types & ~known) return NOT_SUPPORTED;
    set->masks[device->card] |= types;
    return SUCCESS;
}

static int read_event(EventData *out, long long number, int *card) {
    const char *line = state_text("event.%lld", number);
    *out = (EventData){NULL, 0, 0, ~0u, ~0u};
    return line && sscanf(line, "%d %lli %lli %u %u", card, (long long *)&out->eventType,
                          (long long *)&out->eventData, &out->gpuInstanceId, &out->computeInstanceId) >= 3
           && *card >= 0 && *card < MOST_CARDS;
}

/* Give the first event that the set has not told and somebody asked for. */
static int next_event(EventSet *set, EventData *out) {
    int card;
    for (long long each; (each = state_next("event.", set->told)) >= 0;) {
        set->told = each;
        if (!read_event(out, each, &card) || !(set->masks[card] & out->eventType)) continue;
        out->device = &cards[card];
        return 1;
    }
    return 0;
}

static long long milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

Return nvmlEventSetWait_v2(EventSet *set, EventData *out, u32 timeout) {
    SYSTEM_GATE;
    const long long until = milliseconds() + timeout;
    if (!set) return INVALID_ARGUMENT;
    while (!next_event(set, out)) {
        if (milliseconds() >= until) return TIMEOUT;
        state_pause();
        const Return error = driver_error();
        if (error) return error;
    }
    return SUCCESS;
}
