// Package ledgertest reads decision logs in tests.
package ledgertest

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/plugins/ledger"
)

// Verify recomputes the decisions of a log. A difference and a line that was cut
// off fail the test.
func Verify(tb testing.TB, path string) *ledger.Verdict {
	tb.Helper()
	text, err := os.ReadFile(path)
	require.NoError(tb, err)
	v, err := ledger.Verify(path, bytes.NewReader(text))
	require.NoError(tb, err)
	require.Nil(tb, v.First, "%v", v.First)
	require.Zero(tb, v.CutOff)
	return v
}

// Events returns those of a kind in a log; of every kind with "".
func Events(tb testing.TB, path string, kind ledger.Kind) []*ledger.Event {
	tb.Helper()
	text, err := os.ReadFile(path)
	require.NoError(tb, err)
	var list []*ledger.Event
	for r := ledger.NewReader(path, bytes.NewReader(text)); ; {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		require.NoError(tb, err)
		if e.Kind == kind || kind == "" {
			list = append(list, e)
		}
	}
}
