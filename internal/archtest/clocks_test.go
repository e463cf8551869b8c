package archtest

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

// Processor time by other means than internal/cputime.
var otherClocks = regexp.MustCompile(`Getrusage\(|_CPUTIME_ID|/schedstat|\.UserTime\(\)|process_cpu_seconds_total|\btimes >"|/usr/bin/time|TIMEFORMAT`)

// clocked are the files that may use them, with the reason.
var clocked = map[string]string{
	"internal/archtest/clocks_test.go":  "this list",
	"internal/cli/unpack_linux_test.go": "a line of a log, beside the memory",
}

// TestOneClock: the CPU-seconds of pages, tests and tools are those of internal/cputime, from shell scripts by
// sigma-lab records cpu.
func TestOneClock(t *testing.T) {
	used := map[string]bool{}
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if name == "out" || name == "bin" || name == "internal/cputime" || name != "." && strings.HasPrefix(name, ".") {
				return fs.SkipDir
			}
			return nil
		case !strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, ".sh"):
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if found := otherClocks.Find(text); found != nil {
			if used[name] = true; clocked[name] == "" {
				t.Errorf("%s: %s: measure by internal/cputime", name, strings.TrimSpace(string(found)))
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range clocked {
		if !used[name] {
			t.Errorf("%s: it is not there: take it off the exceptions", name)
		}
	}
}
