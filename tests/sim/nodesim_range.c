/* The line: a key space whose keys have an order, and commands on ranges of it.
 *
 * A range that is read at one moment is, in the history, a transaction that reads each key there is or could be between its bounds; so is one that is deleted. The history of all keys of the line is therefore judged as one. */
#include <stdio.h>
#include <string.h>

#include "nodesim_own.h"
#include "resp/answer.h"

void nodesim_range_key(char out[NODESIM_KEY_BYTES], uint32_t i) { snprintf(out, NODESIM_KEY_BYTES, NODESIM_SPACE "/%c", 'a' + (int)i); }
bool nodesim_range_is_sum(uint32_t i) { return i == nodesim_range_sum(0) || i == nodesim_range_sum(1); }
uint32_t nodesim_range_sum(uint32_t which) { return which ? NODESIM_LINE_KEYS - 2 : 1; }

static void say(struct nodesim_client *c, const char *word) { snprintf(c->request.words[c->request.argc++], NODESIM_WORD_BYTES, "%s", word); }

/* From the client's key on: some keys, or all to the end of the line. */
void nodesim_range_ask(struct nodesim *s, struct nodesim_client *c, bool reads)
{
    uint32_t first = c->key - NODESIM_LINE, n = 1 + (uint32_t)rng_below(world_rng(s->w), reads ? NODESIM_LINE_KEYS : 4);
    bool to_end = first + n >= NODESIM_LINE_KEYS;
    char end[NODESIM_KEY_BYTES];
    if (to_end) n = NODESIM_LINE_KEYS - first;
    nodesim_range_key(end, first + n);
    c->n_parts = c->request.argc = 0;
    for (uint32_t i = 0; i < n; i++) {
        nodesim_range_key(c->names[i], first + i);
        c->parts[c->n_parts++] = (struct wgl_part){.kind = reads ? WGL_GET : WGL_DEL, .key = slice_str(c->names[i])};
    }
    say(c, reads ? "range.get" : "range.del");
    say(c, NODESIM_SPACE);
    say(c, c->names[0]);
    say(c, to_end ? "+" : end);
}

/* The space has no order yet, or not any more; or its keys are being carried elsewhere. */
bool nodesim_range_refuses(struct slice reply)
{
    return answer_is_error(reply, "TRYAGAIN") || (answer_is_error(reply, "ERR") && memmem(reply.p, reply.n, "has no order", 12));
}

static bool take_pairs(const struct nodesim_client *c, struct slice in, struct wgl_answer *answers)
{
    uint32_t two, n;
    struct answer a, value;
    if (!answer_array(&in, &two) || two != 2 || !answer_next(&in, &a) || !slice_is(a.text, "0") || !answer_array(&in, &n) || n % 2) return false;
    for (uint32_t i = 0, at = 0; i < n; i += 2, at++) {
        if (!answer_next(&in, &a) || !answer_next(&in, &value) || value.type != '$') return false;
        while (at < c->n_parts && !slice_eq(a.text, c->parts[at].key)) at++; /* they come in order */
        if (at == c->n_parts) return false;
        answers[at] = (struct wgl_answer){.value = value.text};
    }
    return true;
}

void nodesim_range_answers(struct nodesim *s, const struct nodesim_client *c, struct slice reply, struct wgl_answer *answers)
{
    for (uint32_t i = 0; i < c->n_parts; i++) answers[i] = (struct wgl_answer){.nil = true};
    if (!c->write && !take_pairs(c, reply, answers)) world_fail(s->w, "a range is answered %.*s", (int)reply.n, reply.n ? reply.p : "");
    if (c->write && (reply.n == 0 || reply.p[0] != ':')) world_fail(s->w, "the deletion of a range is answered %.*s", (int)reply.n, reply.n ? reply.p : "");
}
