# Runs clang-tidy on the translation units UNITS with the compile commands in LINT; see .ci/lint.
# LINT/stamps has a stamp for each unit that was clean, and a list of the headers it was clean with.
STAMPS := $(UNITS:%=$(LINT)/stamps/%.ok)

all: $(STAMPS)

# With -H the compiler names each header it reads, on the error stream. A header that has gone must not
# stop make, so each is also a target without a rule.
$(LINT)/stamps/%.ok: % .clang-tidy tests/.clang-tidy
	@mkdir -p $(@D)
	@clang-tidy --quiet --extra-arg=-H -p $(LINT) $< 2> $@.log || { grep -E ' (error|warning): ' $@.log; exit 1; }
	@sed -nE 's|^\.+ $(CURDIR)/([^ ]*)$$|\1|p' $@.log | grep -v '^build' | sort -u \
	  | sed 's|.*|$@: &\n&:|' > $(@:.ok=.d)
	@rm $@.log
	@touch $@

-include $(STAMPS:.ok=.d)
