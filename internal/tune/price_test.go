package tune

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/benchdata/generate"
	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/policy"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
)

// The price under which pods give up least within what preferences may cost: much is kept where
// much may be spent, and less where little may.
func TestPriceOfPreferences(t *testing.T) {
	tr, err := generate.Generate("kubernetes", 600301, map[string]string{"nodes": "8", "days": "1", "soft": ".9", "zones": "3", "fleet": "open"})
	require.NoError(t, err)
	for i := range tr.Instance.Machines {
		tr.Instance.Machines[i].Count = 20 // all there, so that a preference may start one
	}
	cfg := Config{Traces: []*trace.Trace{tr}, Target: Live, InForce: "bestfit", Evaluations: 2, Seeds: 1, Seed: 1, Workers: 2, Name: "p"}
	plain, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	require.Nil(t, plain.Preferences)

	costs := map[float64]float64{}
	givenUp := map[float64]float64{}
	for _, most := range []float64{.01, 100} {
		cfg.PreferencesPercent = most
		out, err := Run(t.Context(), cfg)
		require.NoError(t, err)
		p := out.Preferences
		require.Len(t, p.Searched, 2+len(prices))
		ignore, keep := p.Searched[0], p.Searched[1]
		require.Equal(t, PriceRow{Mode: binpack.SoftIgnore, GivenUp: ignore.GivenUp}, ignore)
		require.Greater(t, ignore.GivenUp, 5.)
		require.Less(t, keep.GivenUp, .5)
		var chosen PriceRow
		for _, row := range p.Searched {
			if row.Mode == p.Mode && row.Price == p.Price {
				chosen = row
			}
		}
		require.LessOrEqual(t, chosen.Extra, most)
		for _, row := range p.Searched {
			require.False(t, row.Extra <= most && row.GivenUp < chosen.GivenUp, "%+v gives up less than %+v", row, chosen)
		}
		costs[most], givenUp[most] = chosen.Extra, chosen.GivenUp

		again, err := policy.Parse("p", out.Object.Bytes())
		require.NoError(t, err)
		require.Equal(t, binpack.Care{Mode: p.Mode, Price: p.Price}, again.Spec.Care())
		require.Equal(t, plain.Better, out.Better)
		require.Empty(t, out.Chosen)
		if plain.Object != nil {
			require.Equal(t, plain.Object.Digest(), again.Digest(), "a setting of use")
		}
		text, err := json.Marshal(out)
		require.NoError(t, err)
		require.Contains(t, string(text), `"preferences":{"mode":`)
		require.Contains(t, string(text), `"searched":`)

		// The saving there is of the file as it is written, on the hours of the test.
		r := &run{cfg: cfg, traces: slices.Clone(cfg.Traces)}
		require.NoError(t, r.begin())
		written, err := again.Policy()
		require.NoError(t, err)
		against, err := rule.ByName(out.Against, rule.Options{Seed: cfg.Seed, TiesByPosition: true})
		require.NoError(t, err)
		lost, err := judge(t.Context(), r.traces, r.split.test, []*candidate{{policy: written}, {policy: against}}, r.draws(r.split.test), cfg.Seed, 1)
		require.NoError(t, err)
		require.Equal(t, byCost.saving(lost[0], lost[1], cfg.Seed).fields(), p.Saving.fields())
		require.Equal(t, binpack.SoftKeep, p.VerdictMode)
		require.Contains(t, out.Notes[len(out.Notes)-1], "On the hours of the test ignore costs 0.00 % and gives up ")
		t.Logf("%g %%: %+v; %s", most, chosen, out.Notes[len(out.Notes)-1])
	}
	require.Less(t, givenUp[100], givenUp[.01], "%v", costs)

	for i := range tr.Instance.Apps {
		tr.Instance.Apps[i].Soft = nil
	}
	out, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	require.Nil(t, out.Preferences)
	require.Equal(t, "the price of preferences was not searched: no pod of the history prefers anything", out.Notes[len(out.Notes)-1])
}

// A setting under which pods wait longer costs nothing for them, and is out.
func TestLeastGivenUp(t *testing.T) {
	rows := []PriceRow{{GivenUp: 9}, {GivenUp: 0, Extra: 1}, {GivenUp: 2, Extra: 1}, {GivenUp: 1, Extra: 3}}
	require.Equal(t, 1, leastGivenUp(rows, make([]bool, 4), 2))
	require.Equal(t, 2, leastGivenUp(rows, []bool{false, true, false, false}, 2))
	require.Zero(t, leastGivenUp(rows, []bool{false, true, true, false}, 2))
}
