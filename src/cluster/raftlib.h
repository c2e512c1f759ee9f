/* The Raft library (Debian's libraft-dev) that this program was linked with. Whatever includes <raft.h> in Sherd includes this header instead:
 * it refuses versions that must not be used. */
#pragma once

#if !__has_include(<raft.h>)
#error "libraft-dev is missing: run `make packages-build`"
#endif

#include <raft.h>

/* Before 0.17 an entry that was committed can be lost (Raft's figure 8), before 0.22 there is no raft_step(). */
#if !defined(RAFT_VERSION_NUMBER)
#error "libraft-dev is older than 0.22, which Sherd needs: run `make packages-build`, it takes 0.22 from Debian's backports"
#elif RAFT_VERSION_NUMBER < 2200
#error "libraft-dev is older than 0.22, which Sherd needs: run `make packages-build`, it takes 0.22 from Debian's backports"
#endif

#define RAFTLIB_TEXT_MAX 24

/* Writes the version of the library that was linked, for example "0.22.1", to `text` and returns it. */
const char *raftlib_version(char text[RAFTLIB_TEXT_MAX]);
