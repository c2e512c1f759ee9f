/* Commands on a part of a key space that lies in several groups (server/rangetxn.h), as a front runs them for its connections. Within one group they go by relay, like any command.
 *
 * Errors as those of server/widetxn.h.
 *
 * A front's thread alone. */
#pragma once
#include <stdbool.h>

struct conn;
struct front;
struct widetxn_info;
struct wideranges;

struct wideranges *widerange_front_new(struct front *f); /* kept in f->ranges; before the front starts */
void widerange_front_free(struct wideranges *all);       /* after it has ended, and before its relay goes */
void widerange_turn(struct front *f);                    /* at the end of each turn, before the relay's */
int widerange_wait_ms(const struct front *f);            /* until something is due; -1: nothing is */

void widerange_count(const struct front *f, struct widetxn_info *out); /* any thread: adds those of the front, which are transactions as others are */

/* The request at pos, which is CLASS_SPACE and lies in several groups. As wide_run. */
bool widerange_run(struct conn *c);
