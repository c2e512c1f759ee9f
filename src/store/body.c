#include "store/body.h"

#include "store/hash.h"
#include "store/list.h"
#include "store/members.h"
#include "store/set.h"
#include "store/zset.h"

void body_drop(const struct kit *k, struct entry *e)
{
    if (entry_encoding(e) == ENC_COLD) return;
    switch (entry_type(e)) {
    case TYPE_LIST: list_drop(k, e); break;
    case TYPE_SET: set_drop(k, e); break;
    case TYPE_ZSET: zset_drop(k, e); break;
    case TYPE_HASH: hash_drop(k, e); break;
    default: break;
    }
}

size_t body_bytes(const struct entry *e)
{
    if (entry_encoding(e) == ENC_COLD) return 0;
    switch (entry_type(e)) {
    case TYPE_LIST: return list_body_bytes(e);
    case TYPE_SET: return set_body_bytes(e);
    case TYPE_ZSET: return zset_body_bytes(e);
    case TYPE_HASH: return hash_body_bytes(e);
    default: return 0;
    }
}

uint64_t body_order(const struct entry *e)
{
    if (entry_encoding(e) == ENC_TABLE) return members_order(entry_body(e));
    return entry_encoding(e) == ENC_TREE ? zset_order(e) : 0;
}
