package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sigma-scheduler/sigma/flow/observe"
	"github.com/sigma-scheduler/sigma/internal/durable"
)

const (
	// leastSizes is the least number of flows for a file of sizes.
	leastSizes = 30
	// seenBy ends the first line of such a file.
	seenBy = ", seen by sigma-flow agent"
	// stale is how old one is that no agent writes any more: a port that was silent for so long makes room.
	stale = 2 * time.Hour
)

// writeSizes writes a file for the node and each port, and removes those of ports without sizes, also those left by an
// agent before.
func (a *agent) writeSizes(r *observe.Report) error {
	present := map[string]bool{}
	for key, sizes := range a.watcher.Sizes(leastSizes) {
		name, of := "sizes.csv", "the node"
		if key != (observe.Key{}) {
			name, of = "sizes-"+key.String()+".csv", key.String()
		}
		present[name] = true
		if err := durable.WriteFile(filepath.Join(a.out, name), func(w io.Writer) error {
			return sizes.Write(w, fmt.Sprintf("flows of %s up to %s"+seenBy, of, r.At.UTC().Format(time.RFC3339)))
		}); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(a.out)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if present[e.Name()] || !a.written[e.Name()] && !a.left(e, r.At) {
			continue
		}
		if err := os.Remove(filepath.Join(a.out, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	a.written = present
	return nil
}

// left reports whether a file is one of sizes of a port, old, and by an agent before this one.
func (a *agent) left(e fs.DirEntry, now time.Time) bool {
	info, err := e.Info()
	if err != nil || !strings.HasPrefix(e.Name(), "sizes-") || !info.Mode().IsRegular() || now.Sub(info.ModTime()) < stale {
		return false
	}
	f, err := os.Open(filepath.Join(a.out, e.Name()))
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // only read
	first := bufio.NewScanner(f)
	return first.Scan() && strings.HasSuffix(first.Text(), seenBy)
}
