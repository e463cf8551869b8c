package record

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/durable"
)

// Limits bound what [Segments] keep. The oldest segments are removed first.
type Limits struct {
	Days  int   // 0 = any number
	Bytes int64 // of all files of whole days; 0 = any number
}

// A Segment is a whole day of UTC.
type Segment struct {
	Start  time.Time `json:"start"`
	Digest string    `json:"digest,omitempty"` // of the trace; "" = it is not made yet
	Gap    string    `json:"gap,omitempty"`    // the missing part of the day; "" = nothing
	Events int       `json:"events"`           // of the day itself; those that describe its beginning do not count
	Bytes  int64     `json:"bytes"`            // of its files
}

// name is that of the segment's files, without their extensions.
func (s *Segment) name() string { return s.Start.UTC().Format(time.DateOnly) }

// Segments are the days of a record in a folder, two files each: events/DAY.jsonl.gz with the events, behind a
// description of the cluster at midnight, and traces/DAY.tar.gz, the trace of them, unless the day has a gap.
// The file segments.json lists them; a file that it does not list is no segment. They may be used by several
// goroutines.
type Segments struct {
	dir    string
	limits Limits
	large  bool // days were removed for their bytes before there were as many as wanted
	mu     sync.Mutex
	list   []Segment // oldest first, no day is left out
}

const (
	indexFile = "segments.json"
	todayFile = ".today.jsonl"
	eventsDir = "events"
	eventsEnd = ".jsonl.gz"
	traceDir  = "traces"
	traceEnd  = ".tar.gz"
)

// OpenSegments opens a folder of segments, and makes it if it does not exist. Partial files after a kill are
// removed.
func OpenSegments(dir string, limits Limits) (*Segments, error) {
	for _, sub := range []string{eventsDir, traceDir} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, err
		}
	}
	s := &Segments{dir: dir, limits: limits}
	index := filepath.Join(dir, indexFile)
	text, err := os.ReadFile(index)
	if err == nil {
		if err := json.Unmarshal(text, &s.list); err != nil {
			return nil, fmt.Errorf("%s: %w", index, err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	} else if err := s.begin(); err != nil {
		return nil, err
	}
	for i := range s.list {
		if i > 0 && !s.list[i].Start.Equal(s.list[i-1].Start.Add(day)) {
			return nil, fmt.Errorf("%s: segment %d: start: %s does not follow %s", index, i, s.list[i].name(), s.list[i-1].name())
		}
	}
	if err := os.Remove(filepath.Join(dir, todayFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for sub, end := range map[string]string{eventsDir: eventsEnd, traceDir: traceEnd} {
		if err := s.sweep(filepath.Join(dir, sub), end); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// begin writes an empty index. Where there are days already, it is lost, and they stay.
func (s *Segments) begin() error {
	for sub, end := range map[string]string{eventsDir: eventsEnd, traceDir: traceEnd} {
		entries, err := os.ReadDir(filepath.Join(s.dir, sub))
		if err != nil {
			return err
		}
		for _, e := range entries {
			if isDay(e.Name(), end) {
				return fmt.Errorf("%s is missing, but %s has days: put it back, or move them away", filepath.Join(s.dir, indexFile), filepath.Join(s.dir, sub))
			}
		}
	}
	return s.keep([]Segment{})
}

func isDay(file, end string) bool {
	name, found := strings.CutSuffix(file, end)
	_, err := time.Parse(time.DateOnly, name)
	return found && err == nil
}

// sweep removes files that look like those of a segment, but belong to none.
func (s *Segments) sweep(dir, end string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name, ours := strings.TrimSuffix(e.Name(), end), isDay(e.Name(), end)
		known := slices.ContainsFunc(s.list, func(g Segment) bool { return g.name() == name && (end == eventsEnd || g.Digest != "") })
		if !ours || known {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// List are the segments, oldest first.
func (s *Segments) List() []Segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

// Bytes are those of all segments.
func (s *Segments) Bytes() (sum int64) {
	for _, g := range s.List() {
		sum += g.Bytes
	}
	return sum
}

// TooLarge reports whether days were removed for their bytes before there were as many as wanted.
func (s *Segments) TooLarge() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.large
}

// mostGaps is the number of days with a gap that are listed in addition to the others.
const mostGaps = 400

// Limit changes the limits; they hold from the next day on.
func (s *Segments) Limit(limits Limits) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limits != limits {
		s.limits, s.large = limits, false
	}
}

// end is the end of the newest segment; the zero time = there is no segment.
func (s *Segments) end() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) == 0 {
		return time.Time{}
	}
	return s.list[len(s.list)-1].Start.Add(day)
}

// Traces is the folder of the traces, one for each day without a gap.
func (s *Segments) Traces() string { return filepath.Join(s.dir, traceDir) }

// Trace is the file with the trace of a segment.
func (s *Segments) Trace(g Segment) string { return filepath.Join(s.Traces(), g.name()+traceEnd) }

func (s *Segments) events(g *Segment) string {
	return filepath.Join(s.dir, eventsDir, g.name()+eventsEnd)
}

// add adds a day with the file of its events; "" = it has no file.
func (s *Segments) add(g Segment, events string) error {
	if events != "" {
		if err := compress(events, s.events(&g)); err != nil {
			return err
		}
		info, err := os.Stat(s.events(&g))
		if err != nil {
			return err
		}
		g.Bytes = info.Size()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keep(append(slices.Clone(s.list), g))
}

func compress(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // it was read only
	return durable.WriteFile(to, func(w io.Writer) error {
		zipped := gzip.NewWriter(w)
		if _, err := io.Copy(zipped, in); err != nil {
			return err
		}
		return zipped.Close()
	})
}

// keep writes the index of a list without the segments beyond the limits, and removes their files.
func (s *Segments) keep(list []Segment) error {
	sum, whole := int64(0), 0
	for i := range list {
		sum += list[i].Bytes
		whole += one(list[i].Gap == "")
	}
	// The newest stays, whatever its size, and days with a gap push no others out.
	from, large := 0, false
	for from < len(list)-1 {
		many := s.limits.Days > 0 && (whole > s.limits.Days || len(list)-from > s.limits.Days+mostGaps)
		if large = s.limits.Bytes > 0 && sum > s.limits.Bytes; !many && !large && (from == 0 || list[from].Gap == "") {
			break
		}
		sum -= list[from].Bytes
		whole -= one(list[from].Gap == "")
		s.large = s.large || large && whole < s.limits.Days
		from++
	}
	err := durable.WriteFile(filepath.Join(s.dir, indexFile), func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", " ")
		return e.Encode(list[from:])
	})
	if err != nil {
		return err
	}
	s.list = list[from:]
	for i := range list[:from] { // after a kill, the rest is removed when the folder is opened
		for _, name := range []string{s.events(&list[i]), s.Trace(list[i])} {
			if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// Complete makes the traces that segments lack. A day without a possible trace, such as one without a pod, has a gap.
// One that cannot be read now is made the next time, and holds up no other.
func (s *Segments) Complete(ctx context.Context) (failed error) {
	for _, g := range s.List() {
		if g.Digest != "" {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := s.complete(&g); err != nil {
			failed = errors.Join(failed, fmt.Errorf("segment %s: %w", g.name(), err))
		} else if err := s.replace(g); err != nil {
			return errors.Join(failed, err)
		}
	}
	return failed
}

const (
	placements = "placements" // of a trace's source: the nodes of the pods
	// mostPlacements bounds them in bytes: trace.yaml has 1 MiB at most.
	mostPlacements = 900 << 10
)

// lighten leaves out the nodes of the pods if they are more than a trace may hold: it still serves, except for the
// policy current.
func lighten(t *trace.Trace) {
	all, _ := t.Source[placements].(map[string]any)
	bytes := 0
	for pod, machine := range all {
		bytes += len(pod) + len(fmt.Sprint(machine)) + 10
	}
	if bytes > mostPlacements {
		delete(t.Source, placements)
		t.Source["placementsLeftOut"] = len(all)
	}
}

func (s *Segments) complete(g *Segment) error {
	g.Digest = "none-" + g.name()
	if g.Gap != "" {
		return nil
	}
	if _, err := os.Stat(s.events(g)); errors.Is(err, fs.ErrNotExist) {
		g.Gap = "its file is gone"
		return nil
	} else if err != nil {
		return err
	}
	w := Window{Files: []string{s.events(g)}, From: g.Start, Until: g.Start.Add(day)}
	t, err := w.Trace(g.name())
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		return err // the day may be read the next time
	}
	if err != nil {
		g.Gap = err.Error()
		return nil //nolint:nilerr // the segment has the error
	}
	lighten(t)
	if _, g.Digest, err = t.Digests(); err != nil {
		return err
	}
	if err := t.WriteTarGz(s.Trace(*g)); err != nil {
		return err
	}
	info, err := os.Stat(s.Trace(*g))
	if err != nil {
		return err
	}
	g.Bytes += info.Size()
	return nil
}

// replace puts a segment in the place of that of the same day, if it is still there.
func (s *Segments) replace(g Segment) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.Clone(s.list)
	i := slices.IndexFunc(list, func(o Segment) bool { return o.Start.Equal(g.Start) })
	if i < 0 {
		return nil
	}
	list[i] = g
	return s.keep(list)
}
