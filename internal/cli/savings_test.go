package cli

import (
	"bytes"
	"encoding/json"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// aBill has the figures of a bill that the other commands have, too; money in units.
type aBill struct {
	Currency string
	Cost     struct{ Now, Floor float64 }
	Used     *struct{ CPU, Memory float64 }
	Steps    []struct {
		Cause   string
		Nodes   float64
		Money   *struct{ Mean, Low, High float64 }
		Bound   float64
		Risk    string
		Command string
		Prints  float64 `json:"command_prints"`
	}
	Constraints []struct {
		What    string
		Money   float64
		Command string
		Prints  float64 `json:"command_prints"`
	}
	Rest     float64
	Snapshot string
	Pending  []struct{ Count int }
}

func outputOf(t *testing.T, args ...string) string {
	t.Helper()
	var out, err bytes.Buffer
	require.Zero(t, run(t.Context(), args, &out, &err), "%v: %s", args, err.String())
	return out.String()
}

func parsed[T any](t *testing.T, text string) (v T) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &v))
	return v
}

// The figures of a dump, of the trace of it, and of the commands that the bill names are the same.
func TestSavingsAreThoseOfTheParts(t *testing.T) {
	dump, err := filepath.Abs("../../docs/examples/messy.json.gz")
	require.NoError(t, err)
	bill := parsed[aBill](t, outputOf(t, "savings", "--from", dump, "--format", "json"))
	sum := bill.Rest + bill.Cost.Floor
	for _, s := range bill.Steps {
		if s.Money != nil {
			sum += s.Money.Mean
			require.LessOrEqual(t, s.Money.Mean, s.Bound, s.Cause)
		}
	}
	require.InDelta(t, bill.Cost.Now, sum, .005)
	require.NotNil(t, bill.Used)
	require.NotEmpty(t, bill.Pending)

	t.Chdir(t.TempDir())
	outputOf(t, "snapshot", "--from", dump, "--out", "snap")
	again := parsed[aBill](t, outputOf(t, "savings", "--trace", "snap", "--format", "json"))
	require.Equal(t, bill.Cost, again.Cost)
	for i := range bill.Steps {
		require.Equal(t, bill.Steps[i].Money, again.Steps[i].Money, bill.Steps[i].Cause)
	}
	screen := outputOf(t, "savings", "--trace", "snap")
	lines := strings.Split(strings.TrimSuffix(screen, "\n"), "\n")
	at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "simulated: ") })
	require.LessOrEqual(t, at-1, 25, screen)
	require.Len(t, lines[at:], 5, screen)
	for _, line := range lines {
		require.LessOrEqual(t, utf8.RuneCountInString(line), 80, line)
	}

	moves := again.Steps[0]
	require.Equal(t, "moves", moves.Cause)
	freed := parsed[struct {
		Before   int     `json:"machines_before"`
		After    int     `json:"machines_after"`
		CostFrom float64 `json:"cost_before"`
		CostTo   float64 `json:"cost_after"`
		Saving   struct {
			Empty int `json:"empty_machines"`
		}
	}](t, outputOf(t, append(strings.Fields(moves.Command)[1:], "--format", "json")...))
	require.Equal(t, moves.Nodes, float64(freed.Before-freed.After+freed.Saving.Empty))
	require.GreaterOrEqual(t, moves.Money.Mean+.01, 730*(freed.CostFrom-freed.CostTo))

	// A plan costs the level after its step.
	level, planned := again.Cost.Now, 0
	for _, s := range again.Steps {
		if s.Money != nil {
			level -= s.Money.Mean
		}
		if !strings.HasPrefix(s.Command, "sigma plan ") {
			continue
		}
		planned++
		plans := parsed[[]struct{ Plan struct{ Cost float64 } }](t, outputOf(t, append(strings.Fields(s.Command)[1:], "--format", "json")...))
		require.InDelta(t, level, 730*plans[len(plans)-1].Plan.Cost, .02, s.Cause) // after that of the present nodes
	}
	require.Positive(t, planned)

	// Policies place the pods that may be replaced, on the model of the bill.
	compared := parsed[[]struct {
		Results []struct {
			Policy string
			Runs   []struct {
				Order, Unplaced, Violations int
				Cost                        float64
			}
		}
	}](t, outputOf(t, "compare", "--trace", "snap", "--present", "--policy", "current,mostallocated,bestfit,learned", "--orders", "20", "--format", "json"))
	best := math.Inf(1)
	for _, r := range compared[0].Results {
		if r.Policy == "current" {
			require.InDelta(t, freed.CostFrom, r.Runs[0].Cost, 1e-6, "the present placement")
			continue
		}
		mean, fits := 0., true
		for _, run := range r.Runs[1:] {
			mean += run.Cost / float64(len(r.Runs)-1)
			fits = fits && run.Unplaced == 0
		}
		if fits {
			best = min(best, mean)
		}
	}
	packing := again.Steps[1]
	require.Equal(t, "packing", packing.Cause)
	require.InDelta(t, max(0, 730*(freed.CostTo-best)), packing.Money.Mean, 2, "but for a learned policy that is not proven better")
}
