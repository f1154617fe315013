"""Volumes of every kind, with every field that each can have."""

from typing import Any, Final

Body = dict[str, Any]

SELECTOR: Final[Body] = {
    "matchLabels": {"app": "every"},
    "matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold"]}],
}

NAMED: Final[Body] = {"name": "secret"}
ITEMS: Final[list[Body]] = [{"key": "k", "path": "k", "mode": 0o400}]
DOWNWARD: Final[list[Body]] = [
    {"path": "name", "mode": 0o400, "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}},
    {"path": "cpu", "resourceFieldRef": {"containerName": "c0", "resource": "limits.cpu", "divisor": "1"}},
]
PROJECTED: Final[list[Body]] = [
    {
        "clusterTrustBundle": {
            "signerName": "example.org/signer",
            "labelSelector": SELECTOR,
            "optional": True,
            "path": "signed.pem",
        }
    },
    {"clusterTrustBundle": {"name": "bundle", "optional": True, "path": "named.pem"}},
    {"configMap": {"name": "map", "optional": True, "items": ITEMS}},
    {"downwardAPI": {"items": DOWNWARD}},
    {
        "podCertificate": {
            "signerName": "example.org/signer",
            "keyType": "ED25519",
            "maxExpirationSeconds": 7200,
            "credentialBundlePath": "bundle.pem",
            "userAnnotations": {"example.org/who": "me"},
        }
    },
    {
        "podCertificate": {
            "signerName": "example.org/signer",
            "keyType": "ED25519",
            "keyPath": "key.pem",
            "certificateChainPath": "chain.pem",
        }
    },
    {"secret": {"name": "secret", "optional": True, "items": [{"key": "k", "path": "s", "mode": 0o400}]}},
    {"serviceAccountToken": {"audience": "me", "expirationSeconds": 3600, "path": "token"}},
]
SNAPSHOT: Final = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}
TEMPLATE: Final[Body] = {
    "metadata": {"labels": {"app": "every"}, "annotations": {"example.org/who": "me"}},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "dataSource": SNAPSHOT,
        "dataSourceRef": SNAPSHOT,
        "resources": {"limits": {"storage": "2Gi"}, "requests": {"storage": "1Gi"}},
        "selector": SELECTOR,
        "storageClassName": "fast",
        "volumeAttributesClassName": "gold",
        "volumeMode": "Filesystem",
        "volumeName": "v",
    },
}
FROM_ELSEWHERE: Final[Body] = {
    "accessModes": ["ReadWriteOnce"],
    "dataSourceRef": SNAPSHOT | {"namespace": "elsewhere"},
    "resources": {"requests": {"storage": "1Gi"}},
}
ALL: Final[tuple[Body, ...]] = (
    {"awsElasticBlockStore": {"fsType": "ext4", "partition": 1, "readOnly": True, "volumeID": "v"}},
    {
        "azureDisk": {
            "cachingMode": "None",
            "diskName": "d",
            "diskURI": "https://example.blob.core.windows.net/d",
            "fsType": "ext4",
            "kind": "Shared",
            "readOnly": True,
        }
    },
    {"azureFile": {"readOnly": True, "secretName": "secret", "shareName": "s"}},
    {
        "cephfs": {
            "monitors": ["m"],
            "path": "/",
            "readOnly": True,
            "secretFile": "/f",
            "secretRef": NAMED,
            "user": "u",
        }
    },
    {"cinder": {"fsType": "ext4", "readOnly": True, "secretRef": NAMED, "volumeID": "v"}},
    {"configMap": {"name": "map", "defaultMode": 0o400, "items": ITEMS, "optional": True}},
    {
        "csi": {
            "driver": "csi.example.org",
            "fsType": "ext4",
            "nodePublishSecretRef": NAMED,
            "readOnly": True,
            "volumeAttributes": {"a": "b"},
        }
    },
    {"downwardAPI": {"defaultMode": 0o400, "items": DOWNWARD}},
    {"ephemeral": {"volumeClaimTemplate": TEMPLATE}},
    {"ephemeral": {"volumeClaimTemplate": {"spec": FROM_ELSEWHERE}}},
    {"fc": {"fsType": "ext4", "lun": 1, "readOnly": True, "targetWWNs": ["w"]}},
    {"fc": {"wwids": ["w"]}},
    {
        "flexVolume": {
            "driver": "example.org/flex",
            "fsType": "ext4",
            "options": {"a": "b"},
            "readOnly": True,
            "secretRef": NAMED,
        }
    },
    {"flocker": {"datasetName": "d"}},
    {"flocker": {"datasetUUID": "d"}},
    {"gcePersistentDisk": {"fsType": "ext4", "partition": 1, "pdName": "d", "readOnly": True}},
    {"gitRepo": {"directory": "d", "repository": "r", "revision": "v"}},
    {"glusterfs": {"endpoints": "e", "path": "p", "readOnly": True}},
    {"hostPath": {"path": "/var/lib/data", "type": "DirectoryOrCreate"}},
    {"image": {"pullPolicy": "IfNotPresent", "reference": "example.org/data:1"}},
    {
        "iscsi": {
            "chapAuthDiscovery": True,
            "chapAuthSession": True,
            "fsType": "ext4",
            "initiatorName": "iqn.2001-04.com.example:me",
            "iqn": "iqn.2001-04.com.example:disk",
            "iscsiInterface": "default",
            "lun": 1,
            "portals": ["10.0.0.2:3260"],
            "readOnly": True,
            "secretRef": NAMED,
            "targetPortal": "10.0.0.1:3260",
        }
    },
    {"nfs": {"path": "/p", "readOnly": True, "server": "nfs"}},
    {"photonPersistentDisk": {"fsType": "ext4", "pdID": "d"}},
    {"portworxVolume": {"fsType": "ext4", "readOnly": True, "volumeID": "v"}},
    {"projected": {"defaultMode": 0o400, "sources": PROJECTED}},
    {
        "quobyte": {
            "group": "g",
            "readOnly": True,
            "registry": "r:1",
            "tenant": "t",
            "user": "u",
            "volume": "v",
        }
    },
    {
        "rbd": {
            "fsType": "ext4",
            "image": "i",
            "keyring": "k",
            "monitors": ["m"],
            "pool": "p",
            "readOnly": True,
            "secretRef": NAMED,
            "user": "u",
        }
    },
    {
        "scaleIO": {
            "fsType": "xfs",
            "gateway": "g",
            "protectionDomain": "d",
            "readOnly": True,
            "secretRef": NAMED,
            "sslEnabled": True,
            "storageMode": "ThinProvisioned",
            "storagePool": "p",
            "system": "s",
            "volumeName": "v",
        }
    },
    {"secret": {"secretName": "secret", "defaultMode": 0o400, "items": ITEMS, "optional": True}},
    {
        "storageos": {
            "fsType": "ext4",
            "readOnly": True,
            "secretRef": NAMED,
            "volumeName": "v",
            "volumeNamespace": "n",
        }
    },
    {
        "vsphereVolume": {
            "fsType": "ext4",
            "storagePolicyID": "i",
            "storagePolicyName": "n",
            "volumePath": "[d] v.vmdk",
        }
    },
)
