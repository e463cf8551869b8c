package ledger_test

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// appendTo writes events to a log as a scheduler does that was just started: the
// lines of each cycle together.
func appendTo(tb testing.TB, d dice, path string, events []*ledger.Event) {
	tb.Helper()
	log, err := ledger.OpenLog(path)
	require.NoError(tb, err)
	for len(events) > 0 {
		n := min(len(events), 1+d.IntN(4))
		require.NoError(tb, log.Write(events[:n]...))
		events = events[n:]
	}
	require.NoError(tb, log.Close())
}

func verifyFile(tb testing.TB, path string) (*ledger.Verdict, error) {
	tb.Helper()
	text, err := os.ReadFile(path)
	require.NoError(tb, err)
	return ledger.Verify(path, bytes.NewReader(text))
}

// A live run, whatever happens in it, is computed again without a difference.
func TestLiveRunAgrees(t *testing.T) {
	policy, causes := 0, map[string]int{}
	for seed := range uint64(80) {
		d := seeded(3000 + seed)
		s := newScene(t, d)
		for range 150 {
			s.step()
		}
		path := filepath.Join(t.TempDir(), "decisions.jsonl")
		appendTo(t, d, path, s.events)
		v, err := verifyFile(t, path)
		require.NoError(t, err)
		require.Nil(t, v.First, "seed %d: %v", seed, v.First)
		require.Equal(t, len(s.events), v.Events)
		require.Equal(t, v.Causes[ledger.CausePolicy], v.Agreed)
		require.Equal(t, 1, v.Starts)
		require.Zero(t, v.CutOff)
		for cause, n := range v.Causes {
			causes[cause] += n
		}
		policy += v.Agreed
	}
	require.Greater(t, policy, 2000)
	for _, cause := range []string{ledger.CauseSingle, ledger.CauseNominated, ledger.CauseNeutral, ledger.CauseFallback + "panic"} {
		require.Positive(t, causes[cause], cause)
	}
}

// A restarted scheduler describes the cluster again and continues; a line that a kill
// cut off before that, at any byte, does no harm.
func TestLogOfTwoStarts(t *testing.T) {
	d := seeded(1)
	s := newScene(t, d)
	for range 40 {
		s.step()
	}
	first := s.events
	s.events = nil
	s.begin("fixed")
	for range 40 {
		s.step()
	}
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	appendTo(t, d, path, first)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := bytes.SplitAfter(whole, []byte("\n"))
	last := len(whole) - len(lines[len(lines)-2]) - len(lines[len(lines)-3])
	for cut := last; cut <= len(whole); cut++ {
		require.NoError(t, os.WriteFile(path, whole[:cut], 0o600))
		v, err := verifyFile(t, path)
		require.NoError(t, err, "cut at %d", cut)
		// A line is there when nothing but its end is missing.
		cutOff, kept := 1, bytes.Count(whole[:cut], []byte("\n"))
		if whole[cut-1] == '\n' {
			cutOff = 0
		} else if whole[cut] == '\n' {
			cutOff, kept = 0, kept+1
		}
		require.Equal(t, cutOff, v.CutOff, "cut at %d", cut)
		require.Equal(t, kept, v.Events, "cut at %d", cut)

		// The next start removes a line that has no end.
		appendTo(t, d, path, s.events)
		kept = bytes.Count(whole[:cut], []byte("\n"))
		v, err = verifyFile(t, path)
		require.NoError(t, err, "cut at %d", cut)
		require.Nil(t, v.First, "%v", v.First)
		require.Zero(t, v.CutOff)
		require.Equal(t, 2, v.Starts)
		require.Equal(t, kept+len(s.events), v.Events)

		// Earlier versions gave it an end, and it stayed.
		if whole[cut-1] != '\n' && whole[cut] != '\n' {
			require.NoError(t, os.WriteFile(path, append(whole[:cut:cut], '\n'), 0o600))
			appendTo(t, d, path, s.events)
			v, err = verifyFile(t, path)
			require.NoError(t, err, "cut at %d", cut)
			require.Nil(t, v.First, "%v", v.First)
			require.Equal(t, 1, v.CutOff)
			require.Equal(t, kept+len(s.events), v.Events)
		}
	}
}

// Damage that a kill cannot do is an error: a broken line, or a missing one.
func TestDamagedLog(t *testing.T) {
	s := newScene(t, seeded(2))
	for range 30 {
		s.step()
	}
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	appendTo(t, seeded(2), path, s.events)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.SplitAfter(string(text), "\n")

	_, err = ledger.Verify("d.jsonl", strings.NewReader(strings.Join(lines[:9], "")+lines[9][:20]+"\n"+strings.Join(lines[10:], "")))
	require.ErrorContains(t, err, "d.jsonl:10: unexpected EOF")
	_, err = ledger.Verify("d.jsonl", strings.NewReader(strings.Join(lines[:9], "")+strings.Join(lines[10:], "")))
	require.ErrorContains(t, err, "d.jsonl:10: seq 11 follows 9: lines are missing")
	_, err = ledger.Verify("d.jsonl", strings.NewReader(strings.Join(lines[5:], "")))
	require.ErrorContains(t, err, "d.jsonl:1: nothing started yet")
}

// Events that cannot be written leave nothing behind but a gap in the numbers.
func TestUnwritableEvents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	log, err := ledger.OpenLog(path)
	require.NoError(t, err)
	start := &ledger.Event{Kind: ledger.KindStart, Start: &ledger.Start{Version: ledger.Version, Fleet: "open"}}
	require.NoError(t, log.Write(start))
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	bad := &ledger.Event{Kind: ledger.KindDecide, Decision: &ledger.Decision{Cause: ledger.CausePolicy, Score: math.NaN()}}
	require.ErrorContains(t, log.Write(&ledger.Event{Kind: ledger.KindRule}, bad), "decisions.jsonl: event 3: json: unsupported value: NaN")
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))

	require.NoError(t, log.Write(&ledger.Event{Kind: ledger.KindRule}))
	require.NoError(t, log.Close())
	_, err = verifyFile(t, path)
	require.ErrorContains(t, err, "decisions.jsonl:2: seq 4 follows 1: lines are missing")
}

func TestOpenLog(t *testing.T) {
	_, err := ledger.OpenLog(filepath.Join(t.TempDir(), "nowhere", "decisions.jsonl"))
	require.ErrorContains(t, err, "nowhere")
	_, err = ledger.OpenLog(t.TempDir())
	require.Error(t, err)
}

// A file that somebody else wrote keeps every byte.
func TestOpenLogOfOthers(t *testing.T) {
	for _, text := range []string{`{"name":"web","replicas":3}`, "{\n  \"name\": \"web\"\n}", "not JSON"} {
		path := filepath.Join(t.TempDir(), "other.json")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := ledger.OpenLog(path)
		require.ErrorContains(t, err, path)
		left, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, string(left))
	}
}

func TestLogHasOneWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	first, err := ledger.OpenLog(path)
	require.NoError(t, err)
	_, err = ledger.OpenLog(path)
	require.ErrorContains(t, err, path+": another writer has it open")
	require.NoError(t, first.Close())
	second, err := ledger.OpenLog(path)
	require.NoError(t, err)
	require.NoError(t, second.Close())
}
