package scaling

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/journal"
	"github.com/sigma-scheduler/sigma/mpa/learned"
	"github.com/sigma-scheduler/sigma/mpa/phases"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

// pieceLength is the length of a journal's scenarios: that of a generated one.
const pieceLength = 3 * time.Hour

// laterShare: one in laterShare pieces of a workload is kept from the search, the last ones.
const laterShare = 3

// journaled are workloads as their journals show them, in pieces of equal length.
type journaled struct {
	search, later split
	left          error     // the reason why the first left-out piece is left out
	out           int       // pieces that were left out
	sum           hash.Hash // of the bytes read
}

var journalFile = regexp.MustCompile(`\.jsonl(\.\d+)?$`)

// readJournals reads all journals of a folder, DIR/NAMESPACE/NAME.UID.jsonl and older files
// with a number behind, as a recommender or simulate --log writes them. The path of a file
// without number selects its workload alone.
func readJournals(path string) (*journaled, error) {
	folder, only := path, ""
	if strings.HasSuffix(path, ".jsonl") {
		folder, only = filepath.Dir(path), journalFile.ReplaceAllString(path, "")
	}
	files := map[string][]string{}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && journalFile.MatchString(path) {
			if base := journalFile.ReplaceAllString(path, ""); only == "" || base == only {
				files[base] = append(files[base], path)
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: there is no journal, a file that ends in .jsonl", path)
	}
	j := &journaled{sum: sha256.New()}
	for _, base := range slices.Sorted(maps.Keys(files)) {
		if err := j.read(files[base]); err != nil {
			return nil, err
		}
	}
	if len(j.search.scenarios) == 0 {
		return nil, fmt.Errorf("%s: no workload has two pieces of %v to learn from and to judge by: %w", path, pieceLength, j.left)
	}
	return j, nil
}

// read adds the workload of some files.
func (j *journaled) read(paths []string) error {
	// The oldest file has the largest number, the newest has no number.
	slices.SortFunc(paths, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(b, a)
	})
	var p pieces
	for _, path := range paths {
		if err := p.file(path, j.sum); err != nil {
			return err
		}
	}
	n := len(p.scenarios)
	later := (n + laterShare - 1) / laterShare
	if n < 2 {
		later = n
		p.failed = append(p.failed, fmt.Errorf("%s: %d of %d pieces can be simulated", paths[len(paths)-1], n, n+len(p.failed)))
	}
	for i, s := range p.scenarios {
		switch {
		case n < 2:
		case i < n-later:
			j.search.add(s, uint64(i))
		default:
			j.later.add(s, uint64(i))
		}
	}
	if j.out += len(p.failed); j.left == nil && len(p.failed) > 0 {
		j.left = p.failed[0]
	}
	return nil
}

// pieces are the scenarios of one workload, in order of time.
type pieces struct {
	object    string
	target    mpa.Target
	window    phases.Window
	begin     time.Time // of the piece; zero = no piece is open
	last      time.Time
	scenarios []sim.Scenario
	failed    []error
}

// file adds the observations of a file, and the bytes read to the sum.
func (p *pieces) file(path string, sum io.Writer) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	r := journal.NewReader(path, io.TeeReader(file, sum))
	for record, err := range r.Records() {
		switch {
		case err != nil:
			return err
		case record.Start != nil:
			s := record.Start
			if p.object == "" {
				p.object = s.Object
			} else if s.Object != p.object {
				return fmt.Errorf("%s:%d: start.object is %s, before it is %s", path, r.Line(), s.Object, p.object)
			}
			p.target = s.Target
		case record.Decision != nil:
			o := &record.Decision.Observation
			if o.Time.Before(p.last) {
				return fmt.Errorf("%s:%d: decision.observation.time %s: the one before is %s", path, r.Line(), o.Time.Format(time.RFC3339), p.last.Format(time.RFC3339))
			}
			p.last = o.Time
			p.see(path, o)
		}
	}
	return nil
}

// see adds an observation. A gap shows in its piece as an unknown rate.
func (p *pieces) see(path string, o *mpa.Observation) {
	if p.begin.IsZero() {
		p.begin = o.Time
	}
	p.window = p.window.With(o, &p.target, pieceLength)
	if o.Time.Sub(p.begin) < pieceLength {
		return
	}
	if len(p.window) > 0 {
		if cfg, err := p.window.Config(o.Time, pieceLength, &p.target); err != nil {
			p.failed = append(p.failed, fmt.Errorf("%s, until %s: %w", path, o.Time.Format(time.RFC3339), err))
		} else {
			cfg.App.Name = p.object
			p.scenarios = append(p.scenarios, sim.Scenario{App: cfg.App, Name: p.object, Load: cfg.Load, Hours: cfg.Seconds / 3600, Warmup: cfg.Warmup / 3600})
		}
	}
	p.begin, p.window = time.Time{}, nil
}

// ErrNotBetter is returned when the policy found is not taken: on the journaled workloads
// kept from the search it is worse than the serving one.
var ErrNotBetter = errors.New("what was found is not better than what serves, and is not written")

// compareOwn judges the policy found and the serving one on the later pieces of the journals.
func (t *Trained) compareOwn(ctx context.Context, j *journaled, serving learned.Values, workers int) error {
	own := &Own{Journal: fmt.Sprintf("sha256:%x", j.sum.Sum(nil)), Pair: figures(j.later.scenarios, 0, j.later.pair, j.later.pair), Searched: len(j.search.scenarios), Out: j.out, Left: j.left}
	serves, f, err := j.later.judge(ctx, serving, workers)
	if err != nil {
		return err
	}
	own.Serves = f
	found, f, err := j.later.judge(ctx, t.Policy.Values, workers)
	if err != nil {
		return err
	}
	own.Found, t.Own = f, own
	own.better = found < serves && own.Found.Kept >= own.Serves.Kept
	return nil
}

// print writes the figures, a line an agent.
func (o *Own) print(w io.Writer) {
	fmt.Fprintf(w, "searched on %d pieces of journals as well, %d were left out", o.Searched, o.Out)
	if o.Left != nil {
		fmt.Fprintf(w, " (the first: %v)", o.Left)
	}
	fmt.Fprintf(w, "; on the %d last ones:\n", len(o.Pair.Runs))
	o.Pair.line(w, "hpa+vpa")
	o.Serves.line(w, "serves")
	o.Found.line(w, "found")
}

func (f *Figures) line(w io.Writer, name string) {
	fmt.Fprintf(w, "  %-8s cost %.3f ± %.3f, worst %.2f, kept %d, kills %d\n", name, f.Ratio, f.Half, f.Worst, f.Kept, f.Kills)
}

// Own are the figures of the later pieces of journaled workloads: of hpa+vpa, of the
// serving policy, and of the policy found.
type Own struct {
	Pair, Serves, Found Figures
	Journal             string // digest of the journals
	Searched            int    // pieces
	Out                 int    // pieces that cannot be simulated, and the reason of the first
	Left                error
	better              bool
}

// Better reports whether the policy found costs less than the serving one and keeps no fewer promises.
func (o *Own) Better() bool { return o.better }
