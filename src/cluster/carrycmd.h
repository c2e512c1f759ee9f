/* The group's own commands of carrying keys (docs/decisions/023): what a driver (cluster/mover.h) asks of a group. Each runs under the seat's token on the leader, as any command does; what it changes is one entry of the group's log. Replies are RESP2; all can be repeated.
 *
 *   OP       the operation's number
 *   TERM     the driver's: a lower one than the group has heard is refused: -CARRYOLD
 *   BOUND    "-": before all keys. "+": behind all. "(KEY" : before KEY, any bytes
 *   ENTRY    as dump/dumpfile writes it, with its database
 *   LARGE    a value that is too large to go along: its type, its length, its time and its key (cluster/carrypieces.h): opaque, given on as it came
 *   FROM     where a piece of it begins. Nothing: at the beginning
 *   LOCKS    the locks on what is carried, and the counter behind their tokens: opaque, given on as it came
 *   VERSION  of the cluster's map
 *
 *   carry.begin OP TERM VERSION PLAN      a write: this group has a part in it (holding_plan_encode), which was under way at this version. An array: low, gone, high as BOUNDs. Of an operation that it has: the higher TERM is noted,
 *                                         and where it stands is told. Of one that it has not, with a VERSION below own/map: -CARRYLATE: a late copy perhaps, of an operation that has ended; who knows better says it with a newer map
 *                                         -CARRYBUSY: another operation on some of these keys has not ended here
 *   carry.measure OP KEYS BYTES           a read: a BOUND: where a slice from high on would end that has at most so many of this group's keys and about so many bytes, at least one key. "+": all that is left; also of a group that has none to give: that it answers is all that its driver wants to know.
 *                                         -CARRYBUSY: the key space is not in order yet
 *   carry.freeze OP TERM BOUND BYTES      a write: drops what was given out before and is another group's by the new side, and gives out what is below BOUND. high = BOUND. An array: for each target group but this one
 *                                         an array of four: group, (ENTRY*), (LARGE*), LOCKS, also if that has nothing. Entries of so many bytes together at most; what is more is told of as large. With BOUND = high: the same again
 *                                         -CARRYBUSY: intents on keys of the slice, or a command over all keys that waits: nothing happened. With BOUND < high, a late copy: -CARRYOLD
 *   carry.piece OP LARGE FROM BYTES       a read, of a source: an array of two: FROM of the next piece, empty: there is none; and the PIECE, of about so many bytes. Null: the value has expired
 *   carry.put OP TERM FROM PIECE          a write, of a target: the piece is put in its place. +OK. Of a slice that is taken, a late copy: nothing is left to do. -CARRYLACKS: what is here does not reach to FROM: the value's pieces have to come again, from the first one on
 *   carry.take OP TERM BOUND NPARTS (NENTRIES ENTRY* NLARGES LARGE* LOCKS)*
 *                                         a write: entries and locks, a part for each source, are put in place, low = BOUND. With BOUND <= low: nothing is left to do. +OK. Large values have come before, and those of which the take does not speak go. -CARRYLACKS: one is not all here: as above
 *                                         -CARRYBUSY: a transaction is about to change locks: nothing happened
 *   carry.drop OP TERM BOUND              a write: what is below BOUND has arrived everywhere: if high is BOUND, what was given out is dropped, and gone = high; else nothing is. +OK
 *   carry.end OP TERM VERSION             a write: drops what is left over and the record; own/map becomes VERSION if it was lower. +OK, also of an operation that the group does not have: then a begin that comes late is refused
 *
 * -CARRYNONE: the group has no such operation (and it was no begin and no end). -CARRYBUSY, of any of them: the map that the leader's node has is older than own/map.
 *
 * The driver's part: a slice has one bound, the same for all groups, and the same when something is repeated; no take before all sources have answered, no next freeze before all targets have. */
#pragma once
#include "command/command.h"

enum {
    CARRYCMD_KEYS = 512, /* of a slice, in each source */
    CARRYCMD_BYTES = 512 * 1024,
    CARRYCMD_SLICE_BYTES = 2 * 1024 * 1024, /* that go along with a slice from all sources, at most: a take must fit in one request. What is larger goes in pieces */
    CARRYCMD_PIECE_BYTES = 1024 * 1024,
};

extern const struct command_family carrycmd_family;
