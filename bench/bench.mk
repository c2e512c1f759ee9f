# Side-by-side measurements. `make bench` writes docs/bench/; `make bench-quick` is the same in short, into build/bench/quick/.
# SECTION=durable measures that one alone. `make bench-test` checks the measuring tools. BENCH_ARGS goes to bench/bench.py: make bench BENCH_ARGS='--only memory --repeat 5'

BENCH_TOOLS = build/bench/limit build/bench/load
BENCH_PYTHON = /usr/bin/python3

build/bench/load: bench/load.c bench/etcd.c bench/etcd.h
	@mkdir -p $(dir $@)
	@echo "  cc   $<"
	@$(CC) $(CSTD) $(WARN) -O2 -g $(ARCH) -D_GNU_SOURCE -o $@ bench/load.c bench/etcd.c -pthread

build/bench/%: bench/%.c
	@mkdir -p $(dir $@)
	@echo "  cc   $<"
	@$(CC) $(CSTD) $(WARN) -O2 -g $(ARCH) -D_GNU_SOURCE -o $@ $< -luring -pthread

# The log that the Raft groups of a node share: make bench-raftlog BENCH_ARGS='/var/tmp 3'
build/bench/raftlog: bench/raftlog.c build/libsherd.a
	@mkdir -p $(dir $@)
	@echo "  cc   $<"
	@$(CC) $(CSTD) $(WARN) $(OPT) $(ARCH) -Isrc -D_GNU_SOURCE $(LTO_LINK) -o $@ $< build/libsherd.a $(LIBS)

# Lookups in published snapshots, through the public header.
build/bench/snaplookup: bench/snaplookup.c build/libsherd.a
	@mkdir -p $(dir $@)
	@echo "  cc   $<"
	@$(CC) $(CSTD) $(OPT) $(ARCH) -Iinclude -D_GNU_SOURCE $(LTO_LINK) -o $@ $< build/libsherd.a $(LIBS)

bench-packages:
	@scripts/install-bench-packages

bench: bench-packages
	@$(MAKE) --no-print-directory all $(BENCH_TOOLS)
	@$(BENCH_PYTHON) bench/bench.py $(if $(SECTION),--only $(SECTION)) $(BENCH_ARGS)

bench-quick: bench-packages
	@$(MAKE) --no-print-directory all $(BENCH_TOOLS)
	@$(BENCH_PYTHON) bench/bench.py --quick --out build/bench/quick $(if $(SECTION),--only $(SECTION)) $(BENCH_ARGS)

# Building and reading published snapshots, against the same work in Python. BENCH_ARGS goes to bench/snapshot.py: make bench-snapshot BENCH_ARGS='--rows 1000000'
bench-snapshot: packages-build packages-test
	@$(MAKE) --no-print-directory all build/bench/snaplookup
	@$(BENCH_PYTHON) bench/snapshot.py $(BENCH_ARGS)

# Three nodes against three of etcd, in less than four minutes whatever happens. To see that it works: make bench-cluster BENCH_ARGS='--quick --out build/bench/quick'
bench-cluster: bench-packages
	@$(MAKE) --no-print-directory all build/bench/load
	@timeout --kill-after=15 220 $(BENCH_PYTHON) bench/bench.py --only cluster --budget-minutes 2.5 $(BENCH_ARGS)

# Writing to a range of a cluster while it is cut and moved: make bench-splits BENCH_ARGS='--keys 100000'
bench-splits:
	@$(MAKE) --no-print-directory all build/bench/load
	@timeout --kill-after=15 300 $(BENCH_PYTHON) bench/splits.py $(BENCH_ARGS)

bench-raftlog: build/bench/raftlog
	@$< $(if $(BENCH_ARGS),$(BENCH_ARGS),build)

bench-test: $(BENCH_TOOLS)
	@$(BENCH_PYTHON) -m pytest -q -p no:cacheprovider bench/test_tools.py

.PHONY: bench bench-cluster bench-splits bench-raftlog bench-snapshot bench-quick bench-test bench-packages
