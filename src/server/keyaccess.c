#include "server/keyaccess.h"

#define MOVES "RW access delete", "RW insert"
#define STORES "OW update", "RO access"

/* Where "reads" or "reads and writes" would say too little. */
static const struct {
    const char *name;
    struct keyaccess access;
} special[] = {
    {"append", {"RW insert", NULL}},     {"bitop", {STORES}},
    {"blmove", {MOVES}},                 {"brpoplpush", {MOVES}},
    {"copy", {"RO access", "OW update"}}, {"del", {"RM delete", NULL}},
    {"expire", {"RW update", NULL}},     {"expireat", {"RW update", NULL}},
    {"getdel", {"RW access delete", NULL}}, {"hdel", {"RW delete", NULL}},
    {"hset", {"RW update", NULL}},       {"hsetnx", {"RW insert", NULL}},
    {"hmset", {"RW update", NULL}},      {"linsert", {"RW insert", NULL}},
    {"lmove", {MOVES}},                  {"lpop", {"RW access delete", NULL}},
    {"lpush", {"RW insert", NULL}},      {"lpushx", {"RW insert", NULL}},
    {"lrem", {"RW delete", NULL}},       {"lset", {"RW update", NULL}},
    {"ltrim", {"RW delete", NULL}},      {"mset", {"OW update", NULL}},
    {"msetnx", {"OW insert", NULL}},     {"persist", {"RW update", NULL}},
    {"pexpire", {"RW update", NULL}},    {"pexpireat", {"RW update", NULL}},
    {"pfadd", {"RW insert", NULL}},      {"pfmerge", {"RW access insert", "RO access"}},
    {"psetex", {"OW update", NULL}},     {"rename", {"RW access delete", "OW update"}},
    {"renamenx", {"RW access delete", "OW insert"}}, {"restore", {"OW update", NULL}},
    {"rpop", {"RW access delete", NULL}}, {"rpoplpush", {MOVES}},
    {"rpush", {"RW insert", NULL}},      {"rpushx", {"RW insert", NULL}},
    {"sadd", {"RW insert", NULL}},       {"sdiffstore", {STORES}},
    {"set", {"OW update", NULL}},        {"setex", {"OW update", NULL}},
    {"setnx", {"OW insert", NULL}},      {"setrange", {"RW update", NULL}},
    {"sinterstore", {STORES}},           {"smove", {MOVES}},
    {"sort", {"RO access", "OW update"}}, {"spop", {"RW access delete", NULL}},
    {"srem", {"RW delete", NULL}},       {"sunionstore", {STORES}},
    {"unlink", {"RM delete", NULL}},     {"zadd", {"RW update", NULL}},
    {"zdiffstore", {STORES}},            {"zinterstore", {STORES}},
    {"zpopmax", {"RW access delete", NULL}}, {"zpopmin", {"RW access delete", NULL}},
    {"zrangestore", {STORES}},           {"zrem", {"RW delete", NULL}},
    {"zunionstore", {STORES}},
};

struct keyaccess keyaccess_of(const struct command *c)
{
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++)
        if (strcmp(special[i].name, c->name) == 0) return special[i].access;
    return (struct keyaccess){c->flags & CMD_WRITE ? "RW access update" : "RO access", NULL};
}
