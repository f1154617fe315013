/* What the mock of NVML knows: one small text file of lines `key = value`.
 *
 * The file is named by BERTH_NVML_STATE and read again whenever its time, size or inode
 * changed, so that a test or a person changes the machine under a running program.
 * Whoever writes it should write a new file and rename it: half a file is half a machine.
 * A line that starts with # is a comment. What the file does not say, the machine does
 * not have: the call answers NVML_ERROR_NOT_SUPPORTED.
 *
 *   driver.version = 550.107.02        driver.nvml = 12.550.107.02     driver.cuda = 12040
 *   driver.error = 9                   every call answers this, init included (9: not loaded)
 *   driver.reset = 1                   loaded anew: once it changes, calls answer UNINITIALIZED
 *   driver.profiles = 18               GPU instance profiles by number that it knows; beyond them
 *                                      INVALID_ARGUMENT
 *
 *   card.N.uuid = GPU-...              a card; N counts from 0 and is no index: that is its place
 *                                      among the cards that were there at init
 *   card.N.name|serial|minor|module|brand|architecture|numa = ...
 *   card.N.bus = 00000000:3B:00.0      card.N.capability = 8 0
 *   card.N.absent = 1                  unplugged: lost until the next init, then not counted
 *   card.N.lost = 1                    fallen off the bus: every call on it answers GPU_IS_LOST
 *   card.N.reset = 1                   once it changes, this card is lost until the next init
 *   card.N.memory = TOTAL RESERVED USED   in bytes
 *   card.N.utilization = GPU MEMORY    card.N.power = MILLIWATT      card.N.power.limit = MILLIWATT
 *   card.N.encoder = PERCENT MICROSECONDS   card.N.decoder likewise      (and of which time that is)
 *   card.N.temperature = CELSIUS       card.N.clock.T = MHZ          card.N.clock.max.T = MHZ
 *   card.N.threshold.T = CELSIUS       T is 0 for shutdown, 1 for slowdown
 *   card.N.ecc.mode = NOW PENDING      card.N.ecc.ERRORTYPE.COUNTERTYPE = COUNT
 *   card.N.rows = CORRECTED UNCORRECTED PENDING FAILED               (remapped rows)
 *   card.N.pages = PENDING             whether pages wait for a reset to be retired
 *   card.N.cpus = MASK                 card.N.memories = MASK        (affinity, one word)
 *   card.N.events = MASK               event types that it can tell; card.N.field.ID = VALUE
 *   card.N.fabric = STATE STATUS CLIQUE
 *   card.N.process.K = KIND PID BYTES [GI CI]      KIND is c, g or m (compute, graphics, MPS)
 *   card.N.usage.K = PID TIME SM MEMORY ENCODER DECODER
 *   card.N.nvlinks = COUNT             links that the card has; beyond them INVALID_ARGUMENT
 *   card.N.nvlink.L = STATE TYPE BUS   TYPE 0 is a GPU, 2 a switch; VERSION is card.N.nvlink.version
 *   ancestor.N.M = LEVEL               topology of two cards, N < M (0, 10, ... 50)
 *   p2p.N.M = STATUS                   likewise
 *
 *   card.N.mig.mode = NOW PENDING      card.N.mig.max = 7
 *   card.N.mig.I = UUID GI CI MIB GISLICES CISLICES PROFILE START SIZE
 *   card.N.profile.E = ID SLICES MIB NAME          GPU instance profile of NVML's enum E
 *
 *   event.K = CARD TYPE DATA [GI CI]   delivered once to each set made before K appeared
 *   error.CALL = CODE                  that call answers CODE; card.N.error.CALL: for one card
 *   hang.CALL = 1                      that call hangs until the line is gone; card.N.hang.CALL
 */
#ifndef BERTH_NVML_STATE_H
#define BERTH_NVML_STATE_H

enum { MOST_CARDS = 64, MOST_INSTANCES = 16, LONGEST_VALUE = 256 };

/* All of these want the lock held; `state_pause` lets go of it for a moment. */
void state_lock(void);
void state_unlock(void);
void state_pause(void);
void state_refresh(void);

/* The value of a key, which is built as printf builds it; NULL where the file is silent. */
const char *state_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same as a number, and a number to stand in where the file is silent. */
long long state_number(long long otherwise, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The smallest N of the keys `prefixN` above `after`; -1 where there is none. */
long long state_next(const char *prefix, long long after);

#endif
