/* Threads that read cold values, so that no worker waits for the disk. A job is run once, by one of them, oldest first. */
#pragma once
#include <stdint.h>

struct readers;

/* Embedded in what it is about; belongs to the readers from readers_add until its function is called. */
struct readers_job {
    struct readers_job *next;
    void (*run)(struct readers_job *j);
};

struct readers *readers_new(unsigned threads); /* they start with the first job */
void readers_free(struct readers *r);          /* ends the threads; jobs that have not begun are dropped */
void readers_add(struct readers *r, struct readers_job *j); /* any thread; never blocks for long */
uint64_t readers_under_way(struct readers *r);
