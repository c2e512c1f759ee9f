#include "cluster/txnask.h"

#include "base/mem.h"
#include "base/num.h"

void txnask_fini(struct txnask *a)
{
    buf_fini(&a->words);
    mem_free(a->args);
    mem_free(a->requests);
    mem_free(a->argv);
    mem_free(a->made);
}

void txnask_clear(struct txnask *a)
{
    a->words.len = 0;
    a->n_args = a->n = 0;
}

void txnask_word(struct txnask *a, struct slice w)
{
    if (a->n_args == a->cap_args) {
        a->cap_args = a->cap_args ? a->cap_args * 2 : 32;
        a->args = mem_resize(a->args, a->cap_args * sizeof *a->args);
    }
    a->args[a->n_args++] = (struct txnask_word){a->words.len, w.n};
    buf_add_slice(&a->words, w);
}

void txnask_number(struct txnask *a, uint64_t n)
{
    char text[NUM_I64_MAX_CHARS];
    txnask_word(a, slice_of(text, num_format_u64(text, n)));
}

void txnask_add(struct txnask *a, uint32_t group, const char *command)
{
    if (a->n == a->cap) {
        a->cap = a->cap ? a->cap * 2 : 8;
        a->requests = mem_resize(a->requests, a->cap * sizeof *a->requests);
    }
    a->requests[a->n++] = (struct txnask_request){group, a->n_args};
    txnask_word(a, slice_str(command));
}

const struct txn_request *txnask_requests(struct txnask *a)
{
    a->argv = mem_resize(a->argv, a->n_args * sizeof *a->argv);
    a->made = mem_resize(a->made, a->n * sizeof *a->made);
    for (uint32_t i = 0; i < a->n_args; i++) a->argv[i] = slice_of(a->words.p + a->args[i].at, a->args[i].n);
    for (uint32_t i = 0; i < a->n; i++) {
        uint32_t from = a->requests[i].first_arg, end = i + 1 < a->n ? a->requests[i + 1].first_arg : a->n_args;
        a->made[i] = (struct txn_request){.group = a->requests[i].group, .argv = a->argv + from, .argc = end - from};
    }
    return a->made;
}
