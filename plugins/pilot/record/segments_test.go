package record

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/durable/killtest"
	"github.com/sigma-scheduler/sigma/plugins/history"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/ledger/ledgertest"
)

// segmentsOf follows a log of some days, and completes its segments.
func segmentsOf(t *testing.T, dir string, days int) (file string, s *Segments, l *Log) {
	t.Helper()
	file = filepath.Join(dir, "decisions.jsonl")
	if _, err := os.Stat(file); err != nil {
		logOf(t, file, days)
	}
	s, err := OpenSegments(filepath.Join(dir, "segments"), Limits{})
	require.NoError(t, err)
	l = Follow(file, s, monday)
	t.Cleanup(l.Close)
	require.NoError(t, l.Poll(longAfter))
	require.NoError(t, l.Fault())
	require.NoError(t, s.Complete(t.Context()))
	return file, s, l
}

// comings are what a trace says of each pod: where and when it came, and when it went.
func comings(t *testing.T, tr *trace.Trace) map[string][]float64 {
	t.Helper()
	out := map[string][]float64{}
	for _, e := range tr.Events {
		name := tr.Requests[e.Request].Name
		out[name] = append(out[name], e.Time)
	}
	for i := range tr.Initial {
		name := tr.Requests[i].Name
		out[name] = append(out[name], -1)
	}
	return out
}

// A segment is a trace as it stands, and several give the same pods at the same times as the log itself,
// without the log.
func TestSegmentsAreTheLog(t *testing.T) {
	file, s, l := segmentsOf(t, t.TempDir(), 4)
	list := s.List()
	require.Len(t, list, 4)
	from, until := monday.Add(day), monday.Add(3*day)
	read := func(files ...string) *trace.Trace {
		begin, err := history.ParseTime(from.Format(time.RFC3339))
		require.NoError(t, err)
		end, err := history.ParseTime(until.Format(time.RFC3339))
		require.NoError(t, err)
		h, err := history.Read(files, begin, end)
		require.NoError(t, err)
		tr, _, err := h.Trace(history.Options{Name: "two", Method: "sigma-pilot"})
		require.NoError(t, err)
		return tr
	}
	want := read(file)
	require.NoError(t, os.Remove(file))
	w, err := l.Window(from, until)
	require.NoError(t, err)
	require.Len(t, w.Files, 2)
	got, err := w.Trace("two")
	require.NoError(t, err)
	require.Equal(t, want.Initial, got.Initial)
	require.Equal(t, comings(t, want), comings(t, got))
	require.Equal(t, want.Source["placements"], got.Source["placements"], "where pods stood")
	for _, g := range list {
		tr, err := trace.Load(s.Trace(g))
		require.NoError(t, err)
		_, digest, err := tr.Digests()
		require.NoError(t, err)
		require.Equal(t, g.Digest, digest)
		require.Greater(t, g.Events, 1000)
		require.Empty(t, g.Gap)
	}
}

// The oldest segments go where there are too many, or too many bytes.
func TestSegmentLimits(t *testing.T) {
	dir := t.TempDir()
	_, s, l := segmentsOf(t, dir, 4)
	list := s.List()
	l.Close()
	files := func() (names []string, sum int64) {
		names, err := filepath.Glob(filepath.Join(dir, "segments", "*", "*.gz"))
		require.NoError(t, err)
		for i, name := range names {
			info, err := os.Stat(name)
			require.NoError(t, err)
			names[i], sum = filepath.Base(name), sum+info.Size()
		}
		return names, sum
	}
	_, all := files()
	require.Equal(t, s.Bytes(), all)
	s.Limit(Limits{Days: 3})
	require.NoError(t, s.replace(list[3]))
	require.Equal(t, list[1:], s.List())
	s.Limit(Limits{Days: 3, Bytes: list[2].Bytes + list[3].Bytes})
	require.NoError(t, s.replace(list[3]))
	require.Equal(t, list[2:], s.List())
	names, sum := files()
	require.Equal(t, []string{"2026-11-04.jsonl.gz", "2026-11-05.jsonl.gz", "2026-11-04.tar.gz", "2026-11-05.tar.gz"}, names)
	require.LessOrEqual(t, sum, list[2].Bytes+list[3].Bytes)
}

// Killed at each step, a process leaves segments that the next one goes on from: it ends with the same
// days and the same digests, and without a file that nothing knows.
func TestSegmentsKilledAtEachStep(t *testing.T) {
	var past bytes.Buffer
	ledgertest.Days(t, &past, monday.Add(20*time.Hour), monday.Add(3*day+time.Hour), 1)
	record := func(dir string) (s *Segments, err error) {
		if s, err = OpenSegments(filepath.Join(dir, "segments"), Limits{Days: 1}); err != nil {
			return nil, err
		}
		l := Follow(filepath.Join(dir, "decisions.jsonl"), s, monday.Add(3*day))
		defer l.Close()
		return s, errors.Join(l.Poll(longAfter), l.Fault(), s.Complete(t.Context()))
	}
	var want []Segment
	kills := killtest.EachStep(t,
		func(dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "decisions.jsonl"), past.Bytes(), 0o600))
		},
		func(dir string) error { _, err := record(dir); return err },
		func(dir, next string) {
			s, err := record(dir)
			require.NoError(t, err, next)
			list := s.List()
			require.Len(t, list, 1, next)
			if want == nil {
				want = list
			}
			require.Equal(t, want, list, next)
			for _, g := range list {
				_, err := trace.Load(s.Trace(g))
				require.NoError(t, err, next)
			}
			names, err := filepath.Glob(filepath.Join(dir, "segments", "*", "[0-9]*"))
			require.NoError(t, err)
			require.Len(t, names, 2, next)
			require.Equal(t, s.events(&list[0]), names[0], next)
			require.Equal(t, s.Trace(list[0]), names[1], next)
		})
	require.Greater(t, kills, 10)
}

// Where a segment cannot be written, the decisions are read on and the reason is told; later it is made up for.
func TestSegmentsCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	file, s, l := segmentsOf(t, dir, 2)
	before := s.List()
	end := l.Last()
	folder := filepath.Join(dir, "segments")
	require.NoError(t, os.Rename(folder, folder+".away"))
	late := monday.Add(4*day + time.Hour)
	lines(t, file, start(l.seq+1, end.Add(time.Second)),
		ledger.Event{Seq: l.seq + 2, Time: seconds(late), Kind: ledger.KindArrive, UID: "late", App: "none"},
		ledger.Event{Seq: l.seq + 3, Time: seconds(late), Kind: ledger.KindDecide, UID: "late", Decision: &ledger.Decision{PolicyDigest: "x", Cause: ledger.CausePolicy}})
	require.NoError(t, l.Poll(longAfter))
	require.ErrorContains(t, l.Fault(), "segments")
	require.Equal(t, 1, l.Seen(monday, "x").Decisions, "the guard sees it")
	require.Equal(t, before, s.List())
	_, err := l.Window(monday.Add(3*day), late)
	require.ErrorContains(t, err, "segments")
	require.NoError(t, os.RemoveAll(folder))
	require.NoError(t, os.Rename(folder+".away", folder))
	for range again {
		require.NoError(t, l.Poll(longAfter))
	}
	require.NoError(t, l.Fault())
	require.Len(t, s.List(), 4)
	require.Equal(t, before, s.List()[:2])
	require.Equal(t, 1, l.Seen(monday, "x").Decisions)
}

// A segment that was cut off, or is not there, is an error with its name; one that the index has no file
// of has a gap.
func TestSegmentsCutOff(t *testing.T) {
	dir := t.TempDir()
	_, s, l := segmentsOf(t, dir, 2)
	list := s.List()
	name := s.events(&list[0])
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, text[:len(text)/2], 0o600))
	w, err := l.Window(monday, monday.Add(day))
	require.NoError(t, err)
	_, err = w.Trace("cut")
	require.ErrorContains(t, err, "2026-11-02.jsonl.gz:")
	require.ErrorContains(t, err, "unexpected EOF")
	l.Close()

	index := filepath.Join(dir, "segments", indexFile)
	text, err = os.ReadFile(index)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(index, text[:len(text)/2], 0o600))
	_, err = OpenSegments(filepath.Join(dir, "segments"), Limits{})
	require.ErrorContains(t, err, "segments.json: unexpected end of JSON input")
	require.NoError(t, os.WriteFile(index, bytes.ReplaceAll(text, []byte("2026-11-03T"), []byte("2026-11-04T")), 0o600))
	_, err = OpenSegments(filepath.Join(dir, "segments"), Limits{})
	require.ErrorContains(t, err, "segments.json: segment 1: start: 2026-11-04 does not follow 2026-11-02")
	require.NoError(t, os.WriteFile(index, bytes.ReplaceAll(text, []byte(list[0].Digest), nil), 0o600))
	require.NoError(t, os.Remove(name))
	s, err = OpenSegments(filepath.Join(dir, "segments"), Limits{})
	require.NoError(t, err)
	require.NoError(t, s.Complete(t.Context()))
	require.Equal(t, "its file is gone", s.List()[0].Gap)
}

// A log that begins long after the newest segment leaves a gap that says so.
func TestSegmentsAfterTheLogIsGone(t *testing.T) {
	dir := t.TempDir()
	file, s, l := segmentsOf(t, dir, 2)
	require.Len(t, s.List(), 2)
	l.Close()
	var rest bytes.Buffer
	ledgertest.Days(t, &rest, monday.Add(3*day+6*time.Hour), monday.Add(5*day+time.Hour), 2)
	require.NoError(t, os.WriteFile(file, rest.Bytes(), 0o600))
	_, s, _ = segmentsOf(t, dir, 0)
	list := s.List()
	require.Len(t, list, 5)
	for _, i := range []int{2, 3} {
		require.Equal(t, "the log from 2026-11-04T00:00:00Z to 2026-11-05T06:00:00Z is gone", list[i].Gap)
	}
	require.Equal(t, "none-2026-11-04", list[2].Digest)
	require.Empty(t, list[4].Gap)
	require.NotContains(t, list[4].Digest, "none")
}

// Where an event does not fit the cluster, the next day's beginning is not known until the log begins again.
func TestSegmentsOfAnUnknownState(t *testing.T) {
	dir := t.TempDir()
	file, s, l := segmentsOf(t, dir, 1)
	lines(t, file, ledger.Event{Seq: l.seq + 1, Time: seconds(monday.Add(day + 2*time.Hour)), Kind: ledger.KindPlace, UID: "x", App: "nobody", Node: "node-00"},
		ledger.Event{Seq: l.seq + 2, Time: seconds(monday.Add(2*day + time.Hour)), Kind: ledger.KindRemove, UID: "y"},
		start(l.seq+3, monday.Add(3*day+time.Hour)), ledger.Event{Seq: l.seq + 4, Time: seconds(monday.Add(4*day + time.Hour)), Kind: ledger.KindRemove, UID: "z"})
	require.NoError(t, l.Poll(longAfter))
	require.NoError(t, l.Fault())
	list := s.List()
	require.Len(t, list, 4)
	require.Contains(t, list[2].Gap, "what stood at its beginning is not known: event ")
	require.Contains(t, list[2].Gap, `app "nobody" is unknown`)
	require.NotEmpty(t, list[3].Gap)
}

// Days with a gap push no others out, and the newest stays whatever its size.
func TestKeptDays(t *testing.T) {
	s, err := OpenSegments(t.TempDir(), Limits{Days: 3})
	require.NoError(t, err)
	start := monday
	add := func(gap string, size int64) {
		s.mu.Lock()
		defer s.mu.Unlock()
		require.NoError(t, s.keep(append(slices.Clone(s.list), Segment{Start: start, Gap: gap, Bytes: size, Digest: "d"})))
		start = start.Add(day)
	}
	for range 3 {
		add("", 10)
	}
	for range 30 {
		add("nobody watched", 0)
	}
	require.Len(t, s.List(), 33)
	add("", 10)
	list := s.List()
	require.Len(t, list, 33)
	require.Equal(t, monday.Add(day), list[0].Start)
	require.False(t, s.TooLarge())
	s.Limit(Limits{Days: 3, Bytes: 15})
	add("", 20)
	require.Len(t, s.List(), 1)
	require.True(t, s.TooLarge())
}

// Without its index a folder that has days is left alone; what is no day is nobody's business.
func TestIndexIsLost(t *testing.T) {
	dir := t.TempDir()
	_, err := OpenSegments(dir, Limits{})
	require.NoError(t, err)
	foreign := filepath.Join(dir, "traces", "january.tar.gz")
	theirs := filepath.Join(dir, "events", "2026-11-02.jsonl.gz")
	require.NoError(t, os.WriteFile(foreign, nil, 0o600))
	require.NoError(t, os.Remove(filepath.Join(dir, indexFile)))
	require.NoError(t, os.WriteFile(theirs, nil, 0o600))
	_, err = OpenSegments(dir, Limits{})
	require.ErrorContains(t, err, "segments.json is missing, but ")
	require.FileExists(t, theirs)
	require.NoError(t, os.Remove(theirs))
	_, err = OpenSegments(dir, Limits{})
	require.NoError(t, err)
	require.FileExists(t, foreign)
}

// A day that cannot be read now is no day with a gap.
func TestSegmentsUnreadable(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "other")
	require.NoError(t, os.Mkdir(other, 0o700))
	_, s, l := segmentsOf(t, other, 1)
	good := s.events(&s.list[0])
	l.Close()
	s, err := OpenSegments(dir, Limits{})
	require.NoError(t, err)
	g := Segment{Start: monday.Add(-day)}
	require.NoError(t, os.Mkdir(s.events(&g), 0o700)) // reading a folder fails
	require.NoError(t, s.add(g, ""))
	text, err := os.ReadFile(good)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(s.events(&Segment{Start: monday}), text, 0o600))
	require.NoError(t, s.add(Segment{Start: monday}, ""))
	var failed *fs.PathError
	require.ErrorAs(t, s.Complete(t.Context()), &failed)
	require.Empty(t, s.List()[0].Gap)
	require.Contains(t, s.List()[1].Digest, "sha256:", "the other day is made all the same")
	require.NoError(t, os.Remove(s.events(&g)))
	require.NoError(t, s.Complete(t.Context()))
	require.Equal(t, "its file is gone", s.List()[0].Gap)
}

// A day of many pods with long names is a trace that does not say where they stood.
func TestSegmentsOfManyPods(t *testing.T) {
	tr := &trace.Trace{Source: map[string]any{}}
	placements := map[string]any{}
	for i := range 12_000 {
		placements[fmt.Sprintf("shop/checkout-7bfdcd89cf-%05d", i)] = fmt.Sprintf("ip-10-0-%d-%d.eu-central-1.compute.internal", i/200%200, i%200)
	}
	tr.Source["placements"] = placements
	lighten(tr)
	require.NotContains(t, tr.Source, "placements")
	require.Equal(t, 12_000, tr.Source["placementsLeftOut"])

	few := map[string]any{"shop/web-1": "node-1"}
	tr.Source["placements"] = few
	lighten(tr)
	require.Equal(t, few, tr.Source["placements"])
}
