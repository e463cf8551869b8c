package control

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/internal/durable"
)

// A shelf keeps the files of a pilot, in a folder.
type shelf struct{ dir string }

// segmentsDir is the folder of the recorded days, below that of a shelf.
const segmentsDir = "segments"

// Files of a shelf, next to the folders of segments, of policies and of checkpoints.
const (
	trainedFile = "trained.json" // the outcome of the last training
	verdictFile = "verdict.json" // the last judgement
	liveFile    = "live.json"    // the active policy, since when, and the one before
	regretFile  = "regret.json"  // the last saving that a retrained policy would have had
	historyFile = "history.json" // the history that the page shows
	pageFile    = "report.html"
	specFile    = "spec.json" // the last valid spec
)

func newShelf(dir string) (shelf, error) {
	s := shelf{dir}
	return s, os.MkdirAll(filepath.Join(dir, "policies"), 0o755)
}

func (s shelf) save(name string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return durable.WriteBytes(filepath.Join(s.dir, name), text)
}

// load reads a file into v; without the file v stays as it is.
func (s shelf) load(name string, v any) error {
	text, err := os.ReadFile(filepath.Join(s.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(s.dir, name), err)
	}
	return nil
}

// file is the path of the policy with a digest.
func (s shelf) file(digest string) string {
	return filepath.Join(s.dir, "policies", strings.ReplaceAll(digest, ":", "-")+".yaml")
}

// keep stores a policy by its digest, unless it is there.
func (s shelf) keep(o *policy.Object) error {
	file := s.file(o.Digest())
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	return o.Save(file)
}

// keptPolicies is the number of policies that stay on a shelf in addition to those that
// the loop may need.
const keptPolicies = 20

// prune removes the oldest policies that are not needed.
func (s shelf) prune(needed ...string) error {
	dir := filepath.Join(s.dir, "policies")
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) <= keptPolicies {
		return err
	}
	age := map[string]time.Time{}
	var names []string
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		info, err := e.Info()
		if err != nil {
			return err
		}
		if strings.HasPrefix(e.Name(), ".") || slices.ContainsFunc(needed, func(d string) bool { return d != "" && s.file(d) == name }) {
			continue
		}
		age[name], names = info.ModTime(), append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(age[a].Compare(age[b]), strings.Compare(a, b)) })
	for _, name := range names[:max(0, len(names)-keptPolicies)] {
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// policy reads the one of a digest.
func (s shelf) policy(digest string) (*policy.Object, error) {
	o, err := policy.Load(s.file(digest))
	switch {
	case err != nil:
		return nil, err
	case o.Digest() != digest:
		return nil, fmt.Errorf("%s holds another policy: %s", s.file(digest), o.Digest())
	}
	return o, nil
}
