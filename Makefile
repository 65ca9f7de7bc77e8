# Thin front end: every target gets what is missing, builds what changed, and runs one thing.
# The work is in .ci/bootstrap (packages, HDF5), CMake, and the scripts that the targets name.
BUILD ?= build
JOBS ?= $(shell nproc)
# Tests wait much: twice as many as there are cores keep these busy.
TEST_JOBS ?= $(shell echo $$((2 * $(JOBS))))
FUZZ_SECONDS ?= 5
CMAKE_OPTIONS ?=
comma := ,

# Configures the folder $(1) with the options $(2), once, and again for another HDF5; ninja configures
# by itself when a CMake file changes.
define build-in
	@mkdir -p $(1)
	@[ -f $(1)/build.ninja ] && [ -z "$(CMAKE_OPTIONS)" ] && cmp -s $(BUILD)/deps/hdf5.root $(1)/configured.hdf5 || { \
	  cmake -S . -B $(1) -G Ninja -U 'HDF5_*' -DHDF5_ROOT="$$(cat $(BUILD)/deps/hdf5.root)" $(2) $(CMAKE_OPTIONS) > $(1)/configure.log && \
	  cp $(BUILD)/deps/hdf5.root $(1)/configured.hdf5; } || { cat $(1)/configure.log >&2; rm -f $(1)/build.ninja; exit 1; }
	@cmake --build $(1) -j $(JOBS) $(3)
endef

.PHONY: all deps demo test test-long test-asan test-tsan test-mpich test-hdf5 bench fuzz fuzzers lint format install clean help

all: deps ## build everything into build/
	$(call build-in,$(BUILD),)

deps: ## install missing packages, get HDF5
	@bash .ci/bootstrap $(BUILD)

demo: all ## show h5scr at work
	@bash h5examples/demo.sh $(BUILD)

test: all fuzzers ## all tests (under 20 minutes)
	@ctest --test-dir $(BUILD) --output-on-failure -LE long -j $(TEST_JOBS)

test-long: all fuzzers test-mpich ## all tests and those that take long
	@bash .ci/bootstrap $(BUILD) packages-long
	@ctest --test-dir $(BUILD) --output-on-failure -j $(TEST_JOBS)

test-asan: deps ## unit and native tests under AddressSanitizer and UBSan
	$(call build-in,$(BUILD)/asan,-DH5SCR_SANITIZE=address$(comma)undefined,--target unit_tests native_tests)
	@ctest --test-dir $(BUILD)/asan --output-on-failure -L "unit|native" -LE long -j $(TEST_JOBS)

test-tsan: deps ## MPI-free threads under ThreadSanitizer
	$(call build-in,$(BUILD)/tsan,-DH5SCR_SANITIZE=thread,--target unit_tests)
	@ctest --test-dir $(BUILD)/tsan --output-on-failure -L unit -j $(TEST_JOBS)

# Without the HDF5 driver: the HDF5 of the main build has Open MPI in it.
mpich := -DMPI_C_COMPILER=mpicc.mpich -DMPI_CXX_COMPILER=mpicxx.mpich -DMPI_Fortran_COMPILER=mpifort.mpich \
  -DMPIEXEC_EXECUTABLE=/usr/bin/mpiexec.mpich -DH5SCR_HDF5=OFF
test-mpich: deps ## native tests with MPICH, without the HDF5 driver
	$(call build-in,$(BUILD)/mpich,$(mpich),--target native_tests scr_mpiio)
	@ctest --test-dir $(BUILD)/mpich --output-on-failure -L native -LE long -j $(TEST_JOBS)

test-hdf5: all ## HDF5's own driver tests: h5scr off, at work without a match, every file routed; then the parallel ones
	@for mode in off unrouted routed; do echo "== $$mode"; \
	  bash tests/hdf5/run_hdf5_vfd_tests.sh --mode $$mode --jobs $(JOBS) $(BUILD) || exit 1; done
	@echo "== parallel"; bash tests/hdf5/run_hdf5_vfd_tests.sh --set parallel --ranks 2 --mode compare $(BUILD)

bench: all ## benchmarks, each as a ratio to a baseline of the same run; writes docs/benchmarks.md
	@bash -o pipefail -c 'bash tests/bench/run.sh $(BUILD) | tee $(BUILD)/bench.txt'
	@python3 tests/bench/table.py $(BUILD)/bench.txt docs/benchmarks.md docs/pictures/benchmarks.svg
	@echo "docs/benchmarks.md and its plot are new"

fuzz: fuzzers ## run the fuzzers, FUZZ_SECONDS each
	@bash tests/fuzz/run.sh $(BUILD)/fuzz $(FUZZ_SECONDS)

fuzzers: deps
	$(call build-in,$(BUILD)/fuzz,-DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DH5SCR_FUZZ=ON -DH5SCR_SANITIZE=address$(comma)undefined,--target fuzzers)

lint: deps ## clang-format, and clang-tidy on what changed
	@bash .ci/lint $(BUILD)

format: ## rewrite the sources with clang-format
	@git ls-files '*.cpp' '*.hpp' '*.h' '*.c' | xargs clang-format -i

install: all ## install to the CMake prefix (CMAKE_OPTIONS=-DCMAKE_INSTALL_PREFIX=...)
	@cmake --install $(BUILD)

clean: ## remove all builds, HDF5 too
	rm -rf $(BUILD)

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14
