/* The one table of error codes that are Sherd's own. A function that can fail gives 0 or a count, or a negative number: -errno, or one of these.
 * They lie far below the errnos, so the two never meet. err_text knows both. */
#pragma once

/* code, text. Texts are lower case without a full stop: they stand behind "what was tried: ". New codes go to the end of their group. */
#define ERR_TABLE(X) \
    X(ERR_OBJECT_URL, -5000, "not a usable object store URL") \
    X(ERR_OBJECT_KEY, -5001, "not a usable object key") \
    X(ERR_OBJECT_NOT_FOUND, -5002, "no such object") \
    X(ERR_OBJECT_NO_BUCKET, -5003, "no such bucket") \
    X(ERR_OBJECT_DENIED, -5004, "access denied") \
    X(ERR_OBJECT_CREDENTIALS, -5005, "credentials are missing, unknown or expired") \
    X(ERR_OBJECT_SIGNATURE, -5006, "the store finds the signature wrong: the secret key does not belong to the access key, or a proxy changes requests") \
    X(ERR_OBJECT_CLOCK, -5007, "this machine's clock and the store's differ too much") \
    X(ERR_OBJECT_PRECONDITION, -5008, "the object is not what the condition asks for; nothing was written") \
    X(ERR_OBJECT_UNCERTAIN, -5009, "the answer to a conditional write was lost; it may or may not have happened") \
    X(ERR_OBJECT_RANGE, -5010, "the range begins behind the end of the object") \
    X(ERR_OBJECT_TOO_LARGE, -5011, "the object is larger than allowed here") \
    X(ERR_OBJECT_CHANGED, -5012, "the object changed while it was read") \
    X(ERR_OBJECT_UNSUPPORTED, -5013, "the store does not support this request") \
    X(ERR_OBJECT_TIMEOUT, -5014, "the store did not answer in time") \
    X(ERR_OBJECT_CONNECTION, -5015, "no connection to the store, or it was lost") \
    X(ERR_OBJECT_BUSY, -5016, "the store is overloaded or failing") \
    X(ERR_OBJECT_TLS, -5017, "the store's certificate or TLS was refused") \
    X(ERR_OBJECT_REPLY, -5018, "the store's answer makes no sense") \
    X(ERR_OBJECT_REFUSED, -5019, "the store refused the request") \
    X(ERR_OBJECT_CANCELLED, -5020, "cancelled") \
    X(ERR_SNAPSHOT_MANIFEST, -5100, "the manifest could not be written; nothing is published") \
    X(ERR_SNAPSHOT_CURRENT, -5101, "the manifest is written, but _CURRENT could not be; readers stay with the old snapshot") \
    X(ERR_SNAPSHOT_RACE, -5102, "somebody else has published meanwhile; theirs counts, nothing was overwritten") \
    X(ERR_SNAPSHOT_UNCERTAIN, -5103, "the store stopped answering while _CURRENT was written; readers see the old snapshot or the new one") \
    X(ERR_SNAPSHOT_NO_CURRENT, -5104, "there is no _CURRENT: nothing is published here") \
    X(ERR_SNAPSHOT_BAD_CURRENT, -5105, "_CURRENT is malformed") \
    X(ERR_SNAPSHOT_BAD_MANIFEST, -5106, "the manifest is malformed") \
    X(ERR_SNAPSHOT_BAD_RUN, -5107, "the run record is malformed") \
    X(ERR_SNAPSHOT_COVERAGE, -5108, "the shards that were built are not those of the snapshot") \
    X(ERR_SNAPSHOT_NO_REF, -5109, "no such snapshot") \
    X(ERR_SNAPSHOT_ELSEWHERE, -5110, "the URL is not in this store") \
    X(ERR_SNAPSHOT_DAMAGED, -5111, "the snapshot is damaged") \
    X(ERR_SNAPSHOT_SHARD, -5112, "a shard file is missing, or is not what the manifest says") \
    X(ERR_SNAPSHOT_KEY, -5113, "the key does not fit the snapshot's encoding of keys") \
    X(ERR_SNAPSHOT_ROUTE, -5114, "the key cannot be routed") \
    X(ERR_SNAPSHOT_NO_VALID, -5115, "no manifest that can be read, not among the older ones either") \
    X(ERR_SNAPSHOT_INPUT, -5116, "the input is not in order") \
    X(ERR_SNAPSHOT_ASSIGN, -5117, "rows cannot be assigned to shards") \
    X(ERR_SNAPSHOT_OPTIONS, -5118, "the options do not fit together") \
    X(ERR_SNAPSHOT_WRITE, -5119, "a shard could not be written") \
    X(ERR_SNAPSHOT_LEASE, -5120, "the run record could not be renewed in time, so a cleanup may have taken shards; nothing is published") \
    X(ERR_SHARD_DAMAGED, -5200, "the shard file is damaged, or not one") \
    X(ERR_SHARD_UNSUPPORTED, -5201, "a database, but not of the form that shard files have") \
    X(ERR_SIDECAR_STALE, -5202, "the sidecar belongs to another shard file") \
    X(ERR_SIDECAR_DAMAGED, -5203, "the sidecar is damaged, or not one")

enum err {
#define ERR_ENUM(name, code, text) name = (code),
    ERR_TABLE(ERR_ENUM)
#undef ERR_ENUM
};

/* The text of a negative code, ours or an errno's; "unknown error" for what is neither. Static storage, any thread. */
const char *err_text(int code);
const char *err_name(int code); /* "ERR_OBJECT_URL", "ENOENT": for output that programs read; "UNKNOWN" */
