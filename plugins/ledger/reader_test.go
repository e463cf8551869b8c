package ledger_test

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// readAll reads the events of a log.
func readAll(tb testing.TB, text string) []*ledger.Event {
	tb.Helper()
	var list []*ledger.Event
	for r := ledger.NewReader("d.jsonl", strings.NewReader(text)); ; {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		require.NoError(tb, err)
		list = append(list, e)
	}
}

// A log that was written before version 2 gives the decisions that it gave then,
// and its events are those of a log of version 2.
func TestVersion1IsRead(t *testing.T) {
	old, err := os.ReadFile("testdata/version1.jsonl")
	require.NoError(t, err)
	require.Contains(t, string(old), `"max_per_machine":2,"spread_min":3`)
	was := verify(t, string(old))
	require.Nil(t, was.First)
	require.Equal(t, 44, was.Agreed)
	require.Equal(t, 2, was.Starts)

	events := readAll(t, string(old))
	limits := 0
	for _, e := range events {
		if e.Kind == ledger.KindApp && e.Spec.MaxPerMachine == 2 && e.Spec.SpreadMin == 3 {
			limits++
		}
	}
	require.Positive(t, limits)

	// The same events as version 2, numbered as they were.
	now := strings.NewReplacer(`"max_per_machine"`, `"maxPerMachine"`, `"spread_min"`, `"spreadMin"`, `"version":1`, `"version":2`).Replace(string(old))
	require.Equal(t, readAll(t, now), events)
	require.Equal(t, was, verify(t, now))

	// A limit that is not read changes a decision.
	v, err := ledger.Verify("d.jsonl", strings.NewReader(strings.ReplaceAll(string(old), `,"spread_min":3`, "")))
	require.NoError(t, err)
	require.NotNil(t, v.First)
}

// A scheduler of version 2 goes on with a file that one of version 1 began.
func TestVersionsInOneFile(t *testing.T) {
	old, err := os.ReadFile("testdata/version1.jsonl")
	require.NoError(t, err)
	s := calm(t, 1)
	v := verify(t, string(old)+logOf(t, s.events))
	require.Nil(t, v.First)
	require.Equal(t, 3, v.Starts)
	v = verify(t, logOf(t, s.events)+string(old))
	require.Nil(t, v.First)
	require.Equal(t, 3, v.Starts)
}
