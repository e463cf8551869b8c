package record

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/plugins/ledger"
	"github.com/sigma-scheduler/sigma/plugins/ledger/ledgertest"
)

var monday = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)

// longAfter is after all that tests write.
var longAfter = monday.AddDate(1, 0, 0)

// follow follows a log, with segments in the folder beside it.
func follow(t *testing.T, file string, compared time.Time) *Log {
	t.Helper()
	s, err := OpenSegments(filepath.Join(filepath.Dir(file), "segments"), Limits{})
	require.NoError(t, err)
	return Follow(file, s, compared)
}

// logOf is a file with some days, from noon of the day before on.
func logOf(t *testing.T, file string, days int) {
	t.Helper()
	var out bytes.Buffer
	ledgertest.Days(t, &out, monday.Add(-12*time.Hour), monday.Add(time.Duration(days)*day+time.Hour), 1)
	require.NoError(t, os.WriteFile(file, out.Bytes(), 0o600))
}

// lines appends events to a file.
func lines(t *testing.T, file string, events ...ledger.Event) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	for _, e := range events {
		text, err := json.Marshal(&e)
		require.NoError(t, err)
		_, err = f.Write(append(text, '\n'))
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
}

func start(seq uint64, at time.Time) ledger.Event {
	return ledger.Event{Seq: seq, Time: seconds(at), Kind: ledger.KindStart, Start: &ledger.Start{Version: ledger.Version, Fleet: "fixed"}}
}

// A log that grows, is kept aside and goes on gives the days that it holds whole; the trace of one is
// the same whatever comes later.
func TestDays(t *testing.T) {
	file := filepath.Join(t.TempDir(), "decisions.jsonl")
	l := follow(t, file, monday)
	defer l.Close()
	require.ErrorIs(t, l.Poll(longAfter), os.ErrNotExist)
	logOf(t, file, 3)
	require.NoError(t, l.Poll(longAfter))
	days := l.Days()
	require.Equal(t, []Day{{Start: monday}, {Start: monday.Add(day)}, {Start: monday.Add(2 * day)}}, days)
	digest := func(d Day) string {
		w, err := l.Window(d.Start, d.Start.Add(day))
		require.NoError(t, err)
		tr, err := w.Trace("day")
		require.NoError(t, err)
		require.Greater(t, len(tr.Requests), 100)
		_, digest, err := tr.Digests()
		require.NoError(t, err)
		return digest
	}
	first := digest(days[0])
	require.NotEqual(t, first, digest(days[1]))

	require.NoError(t, os.Rename(file, file+".20261105T010000.000Z"))
	seq, end := l.seq, l.Last()
	lines(t, file, start(seq+1, end.Add(time.Second)))
	require.NoError(t, l.Poll(longAfter))
	require.Equal(t, seq+1, l.seq)
	require.Equal(t, first, digest(days[0]))
	l.Close()
	l = follow(t, file, monday) // a process that goes on
	defer l.Close()
	require.NoError(t, l.Poll(longAfter))
	require.Equal(t, days, l.Days())
	require.Equal(t, first, digest(days[0]))

	// Two days later: what came between is missing.
	lines(t, file, start(1, end.Add(2*day)))
	require.NoError(t, l.Poll(longAfter))
	days = l.Days()
	require.Len(t, days, 5)
	require.Empty(t, days[2].Gap)
	require.Contains(t, days[3].Gap, "nothing was recorded from 2026-11-05T")
	require.Contains(t, days[4].Gap, "nothing was recorded from 2026-11-05T")

	require.NoError(t, os.Remove(file+".20261105T010000.000Z"))
	require.NoError(t, l.Poll(longAfter))
	require.Equal(t, days, l.Days(), "the file is gone, the segments stay")
	l.Close()
	fresh := follow(t, file, monday)
	defer fresh.Close()
	require.NoError(t, fresh.Poll(longAfter))
	require.Equal(t, days, fresh.Days())
}

// A half line is no event until the rest of it is written; events that are missing are a gap, and a
// line that makes no sense is an error, after which all is read from the beginning.
func TestHalfLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "decisions.jsonl")
	lines(t, file, start(1, monday))
	l := follow(t, file, monday)
	defer l.Close()
	require.NoError(t, l.Poll(longAfter))
	text, err := json.Marshal(&ledger.Event{Seq: 2, Time: seconds(monday.Add(time.Minute)), Kind: ledger.KindRemove, UID: "a"})
	require.NoError(t, err)
	for _, part := range []string{string(text[:9]), string(text[9:]), "\n"} {
		require.EqualValues(t, 1, l.seq)
		f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0o600)
		require.NoError(t, err)
		_, err = f.WriteString(part)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		require.NoError(t, l.Poll(longAfter))
	}
	require.EqualValues(t, 2, l.seq)
	lines(t, file, start(5, monday.Add(2*day)), ledger.Event{Seq: 7, Time: seconds(monday.Add(2 * day)), Kind: ledger.KindRemove, UID: "a"})
	require.ErrorContains(t, l.Poll(longAfter), "seq 7 follows 5")
	whole, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, []byte(strings.Join(strings.SplitAfter(string(whole), "\n")[:3], "")), 0o600))
	require.NoError(t, l.Poll(longAfter))
	require.Len(t, l.Days(), 2)
	require.Contains(t, l.Days()[0].Gap, "2 events were not written")
}

func TestSeen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "decisions.jsonl")
	at := func(minutes float64) float64 { return seconds(monday) + 60*minutes }
	decide := func(seq uint64, minutes float64, uid, digest, cause string) ledger.Event {
		return ledger.Event{Seq: seq, Time: at(minutes), Kind: ledger.KindDecide, UID: uid, Decision: &ledger.Decision{PolicyDigest: digest, Cause: cause}}
	}
	lines(t, file, start(1, monday),
		ledger.Event{Seq: 2, Time: at(1), Kind: ledger.KindArrive, UID: "a"}, decide(3, 1.5, "a", "x", ledger.CausePolicy),
		ledger.Event{Seq: 4, Time: at(80), Kind: ledger.KindArrive, UID: "b"}, decide(5, 82, "b", "x", ledger.CauseFallback+"panic"),
		ledger.Event{Seq: 6, Time: at(82), Kind: ledger.KindArrive, UID: "c"}, decide(7, 83, "c", "y", ledger.CausePolicy),
		ledger.Event{Seq: 8, Time: at(83), Kind: ledger.KindArrive, UID: "d"}, ledger.Event{Seq: 9, Time: at(88), Kind: ledger.KindRemove, UID: "z"})
	l := follow(t, file, monday)
	defer l.Close()
	require.NoError(t, l.Poll(longAfter))
	all := l.Seen(monday, "")
	require.Equal(t, Seen{At: monday.Add(83 * time.Minute), Decisions: 2, Fallbacks: 1, Waited: []float64{60, 120, 300}}, all, "of the last hour")
	require.Equal(t, 300., all.P99())
	x := l.Seen(monday, "x")
	require.Equal(t, 1, x.Decisions)
	require.Equal(t, monday.Add(82*time.Minute), x.At)
	none := l.Seen(monday.Add(84*time.Minute), "x")
	require.True(t, none.At.IsZero())
}

// Of a policy's decisions, those that take an empty node are held against what Best-Fit would have done
// in their place.
func TestOpened(t *testing.T) {
	file := filepath.Join(t.TempDir(), "decisions.jsonl")
	at := monday
	var list []ledger.Event
	add := func(e ledger.Event) {
		at = at.Add(time.Second)
		e.Seq, e.Time = uint64(len(list)+1), seconds(at)
		list = append(list, e)
	}
	add(start(1, at))
	for _, name := range []string{"n1", "n2", "n3", "n4"} {
		add(ledger.Event{Kind: ledger.KindNode, Node: name, Machine: &ledger.Machine{Capacity: map[string]int64{"cpu": 8, "pods": 9}, Cost: 1}})
	}
	add(ledger.Event{Kind: ledger.KindApp, App: "web", Spec: &ledger.App{Group: "web", Demand: map[string]int64{"cpu": 1, "pods": 1}}})
	decide := func(uid, node, cause string) {
		add(ledger.Event{Kind: ledger.KindArrive, UID: uid, App: "web"})
		add(ledger.Event{Kind: ledger.KindDecide, UID: uid, App: "web", Node: node, Decision: &ledger.Decision{PolicyDigest: "x", Cause: cause}})
	}
	decide("a", "n1", ledger.CausePolicy)  // both open
	decide("b", "n2", ledger.CausePolicy)  // Best-Fit stays on n1
	decide("c", "n1", ledger.CausePolicy)  // neither opens
	decide("d", "n3", ledger.CauseNeutral) // nobody asked the policy
	lines(t, file, list...)
	l := follow(t, file, monday)
	defer l.Close()
	require.NoError(t, l.Poll(longAfter))
	seen := l.Seen(monday, "x")
	require.Equal(t, []int{4, 3, 2, 1}, []int{seen.Decisions, seen.Compared, seen.Opened, seen.BestFit})
	late := follow(t, file, at)
	defer late.Close()
	require.NoError(t, late.Poll(longAfter))
	require.Zero(t, late.Seen(monday, "x").Compared)

	// What does not fit the cluster is compared with nothing until the log begins again.
	list = nil
	at = at.Add(time.Minute)
	text := ledger.Event{Seq: 15, Time: seconds(at), Kind: ledger.KindDecide, UID: "e", App: "nobody", Node: "n4", Decision: &ledger.Decision{PolicyDigest: "x", Cause: ledger.CausePolicy}}
	after := ledger.Event{Seq: 16, Time: seconds(at), Kind: ledger.KindDecide, UID: "f", App: "web", Node: "n4", Decision: &ledger.Decision{PolicyDigest: "x", Cause: ledger.CausePolicy}}
	lines(t, file, text, after)
	require.NoError(t, l.Poll(longAfter))
	seen = l.Seen(monday, "x")
	require.Equal(t, []int{6, 3}, []int{seen.Decisions, seen.Compared})
}

// A time that is no possible one, as in a line that something else has written, costs neither days nor memory.
func TestImpossibleTimes(t *testing.T) {
	for _, impossible := range []float64{-1e300, -1e15, -1, 1e300} {
		file := filepath.Join(t.TempDir(), "decisions.jsonl")
		first, second := start(1, monday), start(2, monday.Add(time.Minute))
		first.Time = impossible
		lines(t, file, first, second)
		l := follow(t, file, monday)
		require.NoError(t, l.Poll(monday.Add(2*time.Minute)))
		require.LessOrEqual(t, len(l.Days()), 1)
		require.Less(t, len(l.gaps), 3)
		l.Close()
	}
}

// An event from the future ends no day that has not come, and what comes after it has its own time; a clock
// that goes back spoils the days between.
func TestWrongClocks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "decisions.jsonl")
	lines(t, file, start(1, monday))
	l := follow(t, file, monday)
	defer l.Close()
	now := monday.Add(day + time.Hour)
	lines(t, file, start(2, now), start(3, now.Add(40*day)), start(4, now.Add(time.Minute)))
	require.NoError(t, l.Poll(now.Add(time.Minute)))
	require.Equal(t, now.Add(time.Minute), l.Last())
	require.Len(t, l.Days(), 1, "the days to come have not been")
	lines(t, file, start(5, now.Add(day)))
	require.NoError(t, l.Poll(now.Add(day)))
	require.Len(t, l.Days(), 2)
	require.Contains(t, l.Days()[1].Gap, "an event after 2026-11-03T01:00:00Z says 2026-12-13T01:00:00Z")

	// The same from the beginning, when the wrong time has passed too.
	days := l.Days()
	for _, at := range []time.Time{now.Add(day), now.Add(2 * day), longAfter} {
		require.NoError(t, os.RemoveAll(filepath.Join(filepath.Dir(file), "segments")))
		fresh := follow(t, file, monday)
		require.NoError(t, fresh.Poll(at))
		require.Equal(t, days, fresh.Days())
		require.Equal(t, now.Add(day), fresh.Last())
		fresh.Close()
	}

	lines(t, file, start(6, now.Add(day-2*time.Hour)), start(7, now.Add(day-2*time.Hour+time.Minute)), start(8, now.Add(2*day)))
	require.NoError(t, l.Poll(longAfter))
	require.Len(t, l.Days(), 3)
	require.Contains(t, l.Days()[2].Gap, "the clock went back from 2026-11-04T01:00:00Z to 2026-11-03T23:00:00Z")
}

// A window that begins with a day of which nothing is known begins after it.
func TestWindowBehindMissingDays(t *testing.T) {
	file := filepath.Join(t.TempDir(), "decisions.jsonl")
	logOf(t, file, 3)
	l := follow(t, file, monday)
	defer l.Close()
	require.NoError(t, l.Poll(longAfter))
	w, err := l.Window(monday, monday.Add(3*day))
	require.NoError(t, err)
	require.Equal(t, monday, w.From)
	require.Len(t, w.Files, 3)
	before, err := w.Trace("all")
	require.NoError(t, err)

	list := l.cut.to.List()
	require.NoError(t, os.Remove(l.cut.to.events(&list[0])))
	w, err = l.Window(monday, monday.Add(3*day))
	require.NoError(t, err)
	require.Equal(t, monday.Add(day), w.From)
	after, err := w.Trace("all")
	require.NoError(t, err)
	last := func(t *trace.Trace) float64 { return t.Events[len(t.Events)-1].Time }
	require.InDelta(t, last(before)-day.Seconds(), last(after), 1e-6, "times are from From on")
	_, err = l.Window(monday, monday.Add(day))
	require.ErrorIs(t, err, ErrNothing)
}
