/* Runs simulations by seed:  sim [--seeds N] [--from SEED] [--mutants] [--seed SEED [--mutant NAME]]
 *
 *   --seeds N     N runs (1000), from SEED (1) on; each one that fails is named with its seed
 *   --mutants     each planted bug must be found within 200 seeds
 *   --seed SEED   one run, with its story */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raftsim.h"

enum { MUTANT_SEEDS = 200 };

static void say_result(uint64_t seed, const struct raftsim_result *r)
{
    const struct world_counts *c = &r->world;
    printf("seed %llu: %s\n", (unsigned long long)seed, r->failed ? r->why : r->counts ? "ok" : "proves nothing: no leader crashed, or nothing was done");
    printf("  crashes %llu (leaders %llu, power %llu), cuts %llu, slow disks %llu, full disks %llu, clock jumps %llu; faults completed %llu\n",
           (unsigned long long)c->crashes, (unsigned long long)c->leader_crashes, (unsigned long long)c->power_losses, (unsigned long long)c->cuts,
           (unsigned long long)c->slow_disks, (unsigned long long)c->full_disks, (unsigned long long)c->jumps, (unsigned long long)c->completed);
    printf("  writes acknowledged %llu, reads %llu, snapshots %llu, installs %llu, changes of members %llu, drops %llu, transfers %llu, truncations %llu\n",
           (unsigned long long)r->acks, (unsigned long long)r->reads, (unsigned long long)r->snapshots, (unsigned long long)r->installs,
           (unsigned long long)r->changes, (unsigned long long)r->drops, (unsigned long long)r->transfers, (unsigned long long)r->truncations);
    printf("  frames %llu (lost %llu), events %llu, hash %016llx\n", (unsigned long long)c->frames, (unsigned long long)c->frames_lost, (unsigned long long)c->events,
           (unsigned long long)r->hash);
}

static void run_seeds(uint64_t from, uint64_t n, uint64_t *passed, uint64_t *failed)
{
    struct raftsim_result sum = {0};
    for (uint64_t seed = from; seed < from + n; seed++) {
        struct raftsim_result r;
        raftsim_run(seed, RAFTSIM_SOUND, false, &r);
        bool ok = !r.failed && r.counts;
        *(ok ? passed : failed) += 1;
        if (!ok) say_result(seed, &r);
        sum.acks += r.acks;
        sum.reads += r.reads;
        sum.installs += r.installs;
        sum.changes += r.changes;
        sum.drops += r.drops;
        sum.truncations += r.truncations;
        sum.world.leader_crashes += r.world.leader_crashes;
        sum.world.crashes += r.world.crashes;
    }
    printf("%llu seeds: %llu crashes (%llu of leaders), %llu writes, %llu reads, %llu installs, %llu changes of members, %llu replicas dropped, %llu truncations\n", (unsigned long long)n,
           (unsigned long long)sum.world.crashes, (unsigned long long)sum.world.leader_crashes, (unsigned long long)sum.acks, (unsigned long long)sum.reads,
           (unsigned long long)sum.installs, (unsigned long long)sum.changes, (unsigned long long)sum.drops, (unsigned long long)sum.truncations);
}

/* The same seed must give the same run, or no failure can be looked at again. */
static void repeat(uint64_t seed, uint64_t *passed, uint64_t *failed)
{
    struct raftsim_result a, b;
    raftsim_run(seed, RAFTSIM_SOUND, false, &a);
    raftsim_run(seed, RAFTSIM_SOUND, false, &b);
    bool same = a.hash == b.hash && a.world.events == b.world.events;
    if (!same) printf("seed %llu gives two different runs\n", (unsigned long long)seed);
    *(same ? passed : failed) += 1;
}

static void hunt(enum raftsim_mutant mutant, uint64_t *passed, uint64_t *failed)
{
    struct raftsim_result r = {0};
    uint64_t seed = 0;
    while (!r.failed && seed < MUTANT_SEEDS) raftsim_run(++seed, mutant, false, &r);
    printf("mutant %s: %s", raftsim_mutant_name(mutant), r.failed ? "found" : "NOT FOUND");
    if (r.failed) printf(" with seed %llu, %s", (unsigned long long)seed, r.why);
    putchar('\n');
    *(r.failed ? passed : failed) += 1;
}

static int replay(uint64_t seed, enum raftsim_mutant mutant)
{
    struct raftsim_result r;
    raftsim_run(seed, mutant, true, &r);
    say_result(seed, &r);
    return r.failed || !r.counts;
}

static enum raftsim_mutant mutant_named(const char *name)
{
    for (int i = 0; i < RAFTSIM_MUTANTS; i++)
        if (strcmp(name, raftsim_mutant_name((enum raftsim_mutant)i)) == 0) return (enum raftsim_mutant)i;
    fprintf(stderr, "no mutant is called %s\n", name);
    exit(2);
}

int main(int argc, char **argv)
{
    uint64_t seeds = 1000, from = 1, seed = 0, passed = 0, failed = 0;
    bool one = false, mutants = false;
    enum raftsim_mutant mutant = RAFTSIM_SOUND;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--mutants") == 0) {
            mutants = true;
            continue;
        }
        if (strcmp(argv[i], "--seeds") == 0) seeds = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--from") == 0) from = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--mutant") == 0) mutant = mutant_named(value);
        else if (strcmp(argv[i], "--seed") == 0) one = true, seed = strtoull(value, NULL, 10);
        else return fprintf(stderr, "unknown option %s\n", argv[i]), 2;
        i++;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (one) return replay(seed, mutant);
    repeat(from, &passed, &failed);
    run_seeds(from, seeds, &passed, &failed);
    for (int i = 1; mutants && i < RAFTSIM_MUTANTS; i++) hunt((enum raftsim_mutant)i, &passed, &failed);
    printf("sim: %llu passed, %llu failed\n", (unsigned long long)passed, (unsigned long long)failed);
    return failed != 0 || passed == 0;
}
