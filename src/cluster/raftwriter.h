/* What is under a shared Raft log (cluster/raftlog.h): the kernel or a thread writes its batches, a thread does its chores, so that neither disk nor a large file to be zeroed ever holds up the log's owner.
 *
 *     owner: puts records .. raftwriter_step(w)      begins a write if none is under way
 *     threads: the write is durable .. wake(ctx)
 *     owner: raftwriter_step(w)                      collects it (raftlog_durable moves on) and begins the next
 *
 * A write that the kernel or a thread does is noticed late where processors are busy: some more threads have to be woken before. So an owner that has nothing else to do until then may write by itself, as long as the disk is quick:
 *
 *     owner: puts records .. sends what may leave before they are durable .. raftwriter_write(w)
 *     owner: raftwriter_look(w)                      as raftwriter_step, but that it begins no write while the disk is quick
 *
 * All functions are for the thread that owns the log. */
#pragma once
#include <stdbool.h>

#include "base/buf.h"

struct file_ops;
struct raftlog;
struct raftwriter;

struct raftwriter_options {
    const struct file_ops *files;  /* for chores; kept */
    const struct file_ops *writes; /* for batches: io/file_direct.h, or the same; kept */
    void (*wake)(void *ctx);       /* called by the threads when raftwriter_step should be; returns soon */
    void *ctx;
    /* An eventfd that is written to where wake would be called: then batches are written by io/filering.h, without a thread, if it is to be had and `writes` are durable when done (dsync). 0: by the thread. */
    int wake_fd;
};

/* Keeps log. Gives NULL and a reason. */
struct raftwriter *raftwriter_new(struct raftlog *log, const struct raftwriter_options *options, struct buf *error);
/* Waits for what is under way, collects it and ends the threads; what was put and not begun is not written. */
void raftwriter_free(struct raftwriter *w);
/* Collects what is done and begins what is to be done. 0, or the error of a write: the log is broken then, and the process should end. */
int raftwriter_step(struct raftwriter *w);
int raftwriter_look(struct raftwriter *w);
/* Writes what was put, if the last write took no time to speak of and it is not much. True: it is durable, or the next step tells why not. False: there is nothing to write, or it was left to others. */
bool raftwriter_write(struct raftwriter *w);
bool raftwriter_busy(struct raftwriter *w); /* a write was begun and is not yet collected */
bool raftwriter_rings(const struct raftwriter *w); /* batches are written without a thread */
