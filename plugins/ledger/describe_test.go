package ledger_test

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

func byUID(p *ledger.Pod) (string, int64) { return "ns/" + p.UID(), 0 }

// A ledger that a description filled goes on as the described one does: with the same
// description, whatever happens next, and with the same decisions.
func TestDescriptionGoesOn(t *testing.T) {
	agreed := 0
	for seed := range uint64(60) {
		s := newSceneOf(t, seeded(7000+seed), seed%2 == 1)
		s.reserves = seed%3 == 2
		for range 80 {
			s.step()
		}
		description := s.l.Describe(byUID)
		other := ledger.New()
		for _, e := range description {
			require.NoError(t, other.Apply(e), "seed %d: %+v", seed, e)
		}
		require.Equal(t, description, other.Describe(byUID), "seed %d", seed)
		known := len(s.events)
		for range 80 {
			s.step()
		}
		for _, e := range s.events[known:] {
			require.NoError(t, other.Apply(e), "seed %d: %+v", seed, e)
		}
		require.Equal(t, s.l.Describe(byUID), other.Describe(byUID), "seed %d", seed)

		path := filepath.Join(t.TempDir(), "decisions.jsonl")
		appendTo(t, s.d, path, slices.Concat(description, s.events[known:]))
		v, err := verifyFile(t, path)
		require.NoError(t, err, "seed %d", seed)
		require.Nil(t, v.First, "seed %d: %v", seed, v.First)
		agreed += v.Agreed
	}
	require.Greater(t, agreed, 800)
}

// What a past says of apps and nodes that are not there is refused, and changes nothing.
func TestPastIsChecked(t *testing.T) {
	s := newScene(t, seeded(1))
	before := s.l.Describe(byUID)
	for _, tt := range []struct {
		past *ledger.Counters
		want string
	}{
		{nil, "past is missing"},
		{&ledger.Counters{Last: "gone"}, `past.last "gone": the app is unknown`},
		{&ledger.Counters{Arrivals: map[string]int64{"gone": 1}}, "past.arrivals.gone 1: the app is unknown"},
		{&ledger.Counters{LastUsed: map[string]uint64{"gone": 1}}, "past.lastUsed.gone: the node is unknown"},
		{&ledger.Counters{Opened: map[string]uint64{"gone": 1}}, "past.opened.gone: the node is unknown"},
	} {
		require.ErrorContains(t, s.l.Apply(&ledger.Event{Kind: ledger.KindPast, Past: tt.past}), tt.want)
	}
	require.Equal(t, before, s.l.Describe(byUID))
}

// A log that could not be written for a while begins again; a reader says what it lacks.
func TestGap(t *testing.T) {
	s := newScene(t, seeded(3))
	for range 40 {
		s.step()
	}
	path := filepath.Join(t.TempDir(), "decisions.jsonl")
	log, err := ledger.OpenRotatingLog(path, ledger.Rotation{})
	require.NoError(t, err)
	first := len(s.events)
	require.NoError(t, log.Write(s.events...))
	for range 10 {
		s.step()
	}
	log.Skip(len(s.events) - first)
	require.NoError(t, log.Begin(time.Now(), s.l.Describe(byUID)))
	require.NoError(t, log.Close())
	v, err := verifyFile(t, path)
	require.NoError(t, err)
	require.Nil(t, v.First)
	require.Equal(t, []ledger.Gap{{File: path, Line: first + 1, Seq: uint64(len(s.events) + 1), Lost: uint64(len(s.events) - first)}}, v.Gaps)
}
