package gate

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Usage is the usage and the limits of a cgroup.
type Usage struct {
	CPU         float64 // core-seconds since it began
	Quota       float64 // cores; 0 = no limit
	Memory      float64 // bytes in use, without the page cache that can be dropped at once
	MemoryLimit float64 // bytes; 0 = no limit
}

// Cgroup reads a cgroup below a root, of version 2 or else 1: Cgroup("/sys/fs/cgroup", "")
// is the own container's.
func Cgroup(root, name string) func() (Usage, error) {
	if _, err := os.Stat(filepath.Join(root, name, "cpu.stat")); err == nil {
		return func() (Usage, error) { return unified(filepath.Join(root, name)) }
	}
	return func() (Usage, error) {
		return legacy(filepath.Join(root, "cpuacct", name), filepath.Join(root, "cpu", name), filepath.Join(root, "memory", name))
	}
}

// unified reads version 2, as the kernel's admin-guide/cgroup-v2 has it.
func unified(dir string) (u Usage, err error) {
	r := reader{}
	u.CPU = r.field(filepath.Join(dir, "cpu.stat"), "usage_usec") / 1e6
	if quota := r.words(filepath.Join(dir, "cpu.max"), 2); quota[0] != "max" {
		u.Quota = r.number(quota[0]) / r.number(quota[1])
	}
	u.Memory = r.value(filepath.Join(dir, "memory.current")) - r.field(filepath.Join(dir, "memory.stat"), "inactive_file")
	u.MemoryLimit = r.value(filepath.Join(dir, "memory.max"))
	return u, r.err
}

// legacy reads version 1.
func legacy(account, cpu, memory string) (u Usage, err error) {
	r := reader{}
	u.CPU = r.value(filepath.Join(account, "cpuacct.usage")) / 1e9
	if quota := r.value(filepath.Join(cpu, "cpu.cfs_quota_us")); quota > 0 {
		u.Quota = quota / r.value(filepath.Join(cpu, "cpu.cfs_period_us"))
	}
	u.Memory = r.value(filepath.Join(memory, "memory.usage_in_bytes")) - r.field(filepath.Join(memory, "memory.stat"), "total_inactive_file")
	if limit := r.value(filepath.Join(memory, "memory.limit_in_bytes")); limit < 1<<60 { // else the most that a counter holds
		u.MemoryLimit = limit
	}
	return u, r.err
}

// A reader keeps its first error.
type reader struct{ err error }

func (r *reader) text(path string) string {
	text, err := os.ReadFile(path)
	if err != nil && r.err == nil {
		r.err = err
	}
	return string(text)
}

func (r *reader) words(path string, n int) []string {
	words := strings.Fields(r.text(path))
	if len(words) < n {
		if r.err == nil {
			r.err = fmt.Errorf("%s: %q, want %d words", path, words, n)
		}
		return make([]string, n)
	}
	return words
}

// value is the first number of a file; "max" is 0.
func (r *reader) value(path string) float64 {
	if word := r.words(path, 1)[0]; word != "max" {
		return r.number(word)
	}
	return 0
}

func (r *reader) field(path, name string) float64 {
	for line := range strings.Lines(r.text(path)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && key == name {
			return r.number(value)
		}
	}
	if r.err == nil {
		r.err = fmt.Errorf("%s: no %s", path, name)
	}
	return 0
}

func (r *reader) number(text string) float64 {
	if r.err != nil {
		return 1 // a divisor
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		r.err = err
	}
	return n
}
