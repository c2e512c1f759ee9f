/* What nodes tell of themselves and of others they have heard of: one STATUS frame lists any number of them. */
#pragma once
#include "cluster/wire.h"

enum { WIRESTATUS_NODES_MAX = 1024, WIRESTATUS_BEHIND_MAX = 16 };

enum wirestatus_state { WIRESTATUS_JOINING = 0, WIRESTATUS_SERVING = 1, WIRESTATUS_LEAVING = 2, WIRESTATUS_FULL = 3 /* serves, but its log has no room: it should lead nothing */ };

/* A group that the node leads. */
struct wirestatus_lead {
    uint32_t group;
    uint64_t term;
    uint32_t n_behind; /* members that lack much of the group's log, as their leader knows */
    uint64_t behind[WIRESTATUS_BEHIND_MAX];
};

struct wirestatus {
    uint64_t node;
    uint64_t incarnation;
    uint64_t version; /* counts the node's own reports: of two, the one with the later (incarnation, version) holds */
    enum wirestatus_state state;
    uint32_t groups, leaders; /* replicas here, and those of them that lead */
    uint64_t keys, bytes;
    uint64_t free_bytes;      /* on disk */
    uint64_t ops_per_s;
    uint64_t map_version;     /* of the state of group 1 that it has */
    struct slice address;     /* host:port */
    struct slice leads;       /* those that it leads: as many as `leaders` says. wirestatus_add_lead makes them, wirestatus_next_lead reads them */
};

struct wirestatus_list {
    uint32_t n;
    struct slice rest; /* wirestatus_next */
};

/* wire_end ends the frame. */
size_t wirestatus_begin(struct buf *out);
void wirestatus_add(struct buf *out, const struct wirestatus *s);
/* For wirestatus.leads: ascending by group. */
void wirestatus_add_lead(struct buf *leads, const struct wirestatus_lead *l);
/* Checks the whole list: 0 or -EBADMSG. */
int wirestatus_get(const struct wire_frame *f, struct wirestatus_list *list);
bool wirestatus_next(struct wirestatus_list *list, struct wirestatus *out); /* borrows from the frame */
bool wirestatus_next_lead(struct slice *leads, struct wirestatus_lead *out); /* takes the first of them */
