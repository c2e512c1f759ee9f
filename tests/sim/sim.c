/* Runs simulations by seed:  sim [--seeds N] [--from SEED] [--mutants] [--only SCENARIO] [--seed SEED [--mutant NAME]]
 *
 *   --seeds N     N runs of each scenario (1000), from SEED (1) on; each one that fails is named with its seed
 *   --mutants     each planted bug must be found within 200 seeds
 *   --only NAME   one scenario: raft (groups with a small state machine, raftsim.h) or nodes (whole nodes, nodesim.h)
 *   --seed SEED   one run, with its story */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "nodesim.h"
#include "raftsim.h"

enum { MUTANT_SEEDS = 200, FULL_SEEDS = 100, COUNTS = 96 };

/* What is counted in a run, and over all of them. */
struct count {
    const char *name;
    uint64_t n;
    bool must; /* over a hundred seeds there are some, or they prove too little */
};

struct outcome {
    bool failed, counts;
    const char *idle; /* why it proves nothing, if it does not count */
    char why[900];
    uint64_t hash, events;
    uint32_t n;
    struct count count[COUNTS];
};

struct scenario {
    const char *name;
    void (*run)(uint64_t seed, int mutant, bool trace, struct outcome *out);
    const char *(*mutant_name)(int mutant);
    int mutants; /* 0 is none of them */
};

/* ---- the scenarios */

static void add(struct outcome *o, const char *name, uint64_t n)
{
    CHECK(o->n < COUNTS);
    o->count[o->n++] = (struct count){name, n, false};
}

static void must(struct outcome *o, const char *name, uint64_t n)
{
    add(o, name, n);
    o->count[o->n - 1].must = true;
}

static void add_world(struct outcome *o, const struct world_counts *c)
{
    o->events = c->events;
    add(o, "crashes", c->crashes);
    add(o, "of leaders", c->leader_crashes);
    add(o, "power losses", c->power_losses);
    add(o, "cuts", c->cuts);
    add(o, "slow disks", c->slow_disks);
    add(o, "full disks", c->full_disks);
    add(o, "clock jumps", c->jumps);
    add(o, "pauses", c->pauses);
    add(o, "frames", c->frames);
    add(o, "frames lost", c->frames_lost);
}

static void run_raft(uint64_t seed, int mutant, bool trace, struct outcome *o)
{
    struct raftsim_result r;
    raftsim_run(seed, (enum raftsim_mutant)mutant, trace, &r);
    *o = (struct outcome){.failed = r.failed, .counts = r.counts, .idle = "no leader crashed, or nothing was done", .hash = r.hash};
    snprintf(o->why, sizeof o->why, "%s", r.why);
    add_world(o, &r.world);
    add(o, "writes", r.acks);
    add(o, "reads", r.reads);
    add(o, "snapshots", r.snapshots);
    add(o, "installs", r.installs);
    add(o, "changes of members", r.changes);
    add(o, "replicas dropped", r.drops);
    add(o, "transfers", r.transfers);
    add(o, "truncations", r.truncations);
}

static void run_nodes(uint64_t seed, int mutant, bool trace, struct outcome *o)
{
    struct nodesim_result r;
    nodesim_run(seed, (enum nodesim_mutant)mutant, trace, &r);
    *o = (struct outcome){.failed = r.failed, .counts = r.counts, .idle = "no node crashed, no group got another leader, no seat was made anew, no transaction went over groups, or no range was split, merged or moved", .hash = r.hash};
    snprintf(o->why, sizeof o->why, "%s", r.why);
    add_world(o, &r.world);
    add(o, "writes", r.writes);
    add(o, "reads", r.reads);
    add(o, "uncertain", r.uncertain);
    add(o, "lost", r.lost);
    add(o, "expiring keys", r.expiring);
    must(o, "proven by workers", r.proven);
    must(o, "by senders", r.vouched);
    must(o, "sent by the board", r.boards);
    add(o, "reigns", r.reigns);
    add(o, "commands held up", r.held);
    add(o, "seats made anew", r.refills);
    add(o, "installs", r.installs);
    add(o, "recoveries", r.recoveries);
    add(o, "snapshots", r.snapshots);
    add(o, "moves", r.moves);
    must(o, "joins", r.joins);
    must(o, "leaves", r.leaves);
    must(o, "on ranges", r.ranges);
    must(o, "of a space that is not set", r.unset_ranges);
    must(o, "pages", r.pages);
    must(o, "keys deleted", r.deleted);
    must(o, "locks", r.locks);
    must(o, "denied", r.denied);
    must(o, "pipelines", r.pipelines);
    must(o, "stale reads", r.stale_reads);
    must(o, "changes of mode", r.modes);
    must(o, "splits", r.splits);
    must(o, "merges", r.merges);
    must(o, "moves of ranges", r.range_moves);
    must(o, "new groups", r.group_splits);
    add(o, "slices", r.slices);
    add(o, "keys carried", r.carried);
    must(o, "in pieces", r.large);
    static const char *const steps[NODESIM_ATS] = {"struck at begin", "at measure", "at freeze", "at a piece", "at put", "at take", "at end", "at a boundary", "at done"};
    for (int i = 0; i < NODESIM_ATS; i++) must(o, steps[i], r.struck[i]);
    add(o, "strikes", r.strikes);
    must(o, "handed over", r.handed_over);
    must(o, "blinded nodes", r.blinded);
    add(o, "writes over groups", r.wide_writes);
    add(o, "reads over groups", r.wide_reads);
    must(o, "sent on", r.forwarded);
    must(o, "sent again", r.sent_again);
    must(o, "known again", r.repeated);
    must(o, "all keys counted", r.counted);
    must(o, "listed", r.listed);
    must(o, "scanned", r.scanned);
    must(o, "waits for a map", r.waited);
    must(o, "ranges over groups", r.wide_ranges);
    must(o, "deletions over groups", r.wide_deletions);
    must(o, "on locks over groups", r.wide_locks);
    must(o, "of a bucket in two", r.wide_unset);
    add(o, "refused", r.wide_refused);
    add(o, "uncertain", r.wide_uncertain);
    must(o, "recovered", r.recovered);
}

static const char *raft_mutant(int m) { return raftsim_mutant_name((enum raftsim_mutant)m); }
static const char *nodes_mutant(int m) { return nodesim_mutant_name((enum nodesim_mutant)m); }

static const struct scenario scenarios[] = {
    {"raft", run_raft, raft_mutant, RAFTSIM_MUTANTS},
    {"nodes", run_nodes, nodes_mutant, NODESIM_MUTANTS},
};
enum { SCENARIOS = sizeof scenarios / sizeof scenarios[0] };

/* ---- running them */

static void say_counts(const struct outcome *o)
{
    for (uint32_t i = 0; i < o->n; i++) printf("%s%llu %s", i ? ", " : "", (unsigned long long)o->count[i].n, o->count[i].name);
    putchar('\n');
}

static void say_outcome(const struct scenario *s, uint64_t seed, const struct outcome *o)
{
    printf("%s, seed %llu: %s%s\n  ", s->name, (unsigned long long)seed, o->failed ? o->why : o->counts ? "ok" : "proves nothing: ", o->failed || o->counts ? "" : o->idle);
    say_counts(o);
    printf("  %llu events, hash %016llx\n", (unsigned long long)o->events, (unsigned long long)o->hash);
}

static void run_seeds(const struct scenario *s, uint64_t from, uint64_t n, uint64_t *passed, uint64_t *failed)
{
    struct outcome sum = {0};
    for (uint64_t seed = from; seed < from + n; seed++) {
        struct outcome o;
        s->run(seed, 0, false, &o);
        bool ok = !o.failed && o.counts;
        *(ok ? passed : failed) += 1;
        if (!ok) say_outcome(s, seed, &o);
        for (uint32_t i = 0; i < o.n; i++) o.count[i].n += sum.count[i].n;
        sum = o;
    }
    printf("%s, %llu seeds: ", s->name, (unsigned long long)n);
    say_counts(&sum);
    for (uint32_t i = 0; n >= FULL_SEEDS && i < sum.n; i++) {
        if (!sum.count[i].must || sum.count[i].n) continue;
        printf("%s: %llu seeds, and none of these: %s\n", s->name, (unsigned long long)n, sum.count[i].name);
        *failed += 1;
    }
}

/* The same seed must give the same run, or no failure can be looked at again. */
static void repeat(const struct scenario *s, uint64_t seed, uint64_t *passed, uint64_t *failed)
{
    struct outcome a, b;
    s->run(seed, 0, false, &a);
    s->run(seed, 0, false, &b);
    bool same = a.hash == b.hash && a.events == b.events;
    if (!same) printf("%s, seed %llu: two different runs\n", s->name, (unsigned long long)seed);
    *(same ? passed : failed) += 1;
}

static void hunt(const struct scenario *s, int mutant, uint64_t *passed, uint64_t *failed)
{
    struct outcome o = {0};
    uint64_t seed = 0;
    while (!o.failed && seed < MUTANT_SEEDS) s->run(++seed, mutant, false, &o);
    printf("%s, mutant %s: %s", s->name, s->mutant_name(mutant), o.failed ? "found" : "NOT FOUND");
    if (o.failed) printf(" with seed %llu, %s", (unsigned long long)seed, o.why);
    putchar('\n');
    *(o.failed ? passed : failed) += 1;
}

static bool replay(const struct scenario *s, uint64_t seed, const char *mutant)
{
    struct outcome o;
    int m = 0;
    while (mutant && m < s->mutants && strcmp(mutant, s->mutant_name(m)) != 0) m++;
    if (m == s->mutants) return printf("%s has no mutant %s\n", s->name, mutant), true;
    s->run(seed, m, true, &o);
    say_outcome(s, seed, &o);
    return !o.failed && o.counts;
}

int main(int argc, char **argv)
{
    uint64_t seeds = 1000, from = 1, seed = 0, passed = 0, failed = 0;
    bool one = false, mutants = false, good = true;
    const char *mutant = NULL, *only = NULL;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--mutants") == 0) {
            mutants = true;
            continue;
        }
        if (strcmp(argv[i], "--seeds") == 0) seeds = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--from") == 0) from = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--mutant") == 0) mutant = value;
        else if (strcmp(argv[i], "--only") == 0) only = value;
        else if (strcmp(argv[i], "--seed") == 0) one = true, seed = strtoull(value, NULL, 10);
        else return fprintf(stderr, "unknown option %s\n", argv[i]), 2;
        i++;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int k = 0; k < SCENARIOS; k++) {
        const struct scenario *s = &scenarios[k];
        if (only && strcmp(only, s->name) != 0) continue;
        if (one) {
            good &= replay(s, seed, mutant);
            continue;
        }
        repeat(s, from, &passed, &failed);
        run_seeds(s, from, seeds, &passed, &failed);
        for (int m = 1; mutants && m < s->mutants; m++) hunt(s, m, &passed, &failed);
    }
    if (one) return !good;
    printf("sim: %llu passed, %llu failed\n", (unsigned long long)passed, (unsigned long long)failed);
    return failed != 0 || passed == 0;
}
