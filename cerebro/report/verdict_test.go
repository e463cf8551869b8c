package report

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVerdict(t *testing.T) {
	of := func(name string, list ...PolicyRuns) Comparison {
		return Build(Trace{Name: name, Fleet: "open", Mixed: true, Seconds: 3600}, Bound{}, list)
	}
	rule := func(name string, values ...float64) PolicyRuns {
		return PolicyRuns{Policy: name, Runs: costs(true, values...)}
	}
	policy := func(values ...float64) PolicyRuns {
		return PolicyRuns{Policy: "out/mine.yaml", Digest: "sha256:x", Exposure: "held out", Runs: costs(true, values...)}
	}
	left := policy(6, 6, 6)
	left.Runs[1].Unplaced = 1
	for _, c := range []struct {
		list          []Comparison
		text, command string
	}{
		{nil, "", ""},
		{
			[]Comparison{of("a", rule("current", 20), rule("bestfit", 10, 10, 10), rule("mostallocated", 8, 8, 8), policy(6, 6, 6))},
			"mine saves 25.0 % of the cost against mostallocated, the best rule that is free; it costs 70.0 % less than the present placement.", "kubectl apply -f out/mine.yaml",
		},
		{
			[]Comparison{of("a", rule("bestfit", 10, 10, 10), rule("mostallocated", 8, 8, 8), policy(6, 7, 8))},
			"mine saves nothing that is proven against mostallocated, the best rule that is free: 12.5 % (95 %: −18.6 to 43.6).", "sigma tune --trace days/a --out policy.yaml",
		},
		{
			[]Comparison{of("a", rule("bestfit", 8, 8, 8), policy(10, 10, 10))},
			"mine costs 25.0 % more than bestfit, the best rule that is free.", "sigma tune --trace days/a --out policy.yaml",
		},
		{
			[]Comparison{of("a", rule("bestfit", 8, 8), policy(8, 8))}, "mine costs as much as bestfit, the best rule that is free.", "sigma tune --trace days/a --out policy.yaml",
		},
		{
			[]Comparison{of("a", rule("current", 16), rule("bestfit", 8))}, "bestfit costs 50.0 % less than the present placement.", "sigma compare --trace days/a --policy current,bestfit,learned",
		},
		{
			[]Comparison{of("a", rule("bestfit", 8, 8), policy(6, 6)), of("b", rule("bestfit", 10, 10), policy(8, 8)), of("c", rule("bestfit", 10, 10), policy(7, 7))},
			"mine saves 25.0 % of the cost against bestfit, the best rule that is free (95 %: 12.6 to 37.4) (means over 3 traces).", "kubectl apply -f out/mine.yaml",
		},
		{
			[]Comparison{of("a", rule("bestfit", 8, 8, 8), left)}, "", "",
		},
		{
			[]Comparison{of("a", rule("bestfit", 8, 8))}, "", "",
		},
	} {
		v := newVerdict(c.list, []string{"days/a"})
		require.Equal(t, c.text, v.Text)
		require.Equal(t, c.command, v.Command)
	}
}

// TestVerdictCommand: the command names what the command line gave, so that a shell takes it as it is.
func TestVerdictCommand(t *testing.T) {
	list := []Comparison{
		Build(Trace{Name: "small-900000"}, Bound{}, []PolicyRuns{
			{Policy: "bestfit", Runs: costs(true, 8, 8)}, {Policy: "learned", Digest: "sha256:x", Runs: costs(true, 9, 9)},
		}),
	}
	for _, c := range []struct {
		paths   []string
		command string
	}{
		{[]string{"small"}, "sigma tune --trace small --out policy.yaml"},
		{[]string{"../days/monday.csv.gz", "tuesday"}, "sigma tune --trace ../days/monday.csv.gz --trace tuesday --out policy.yaml"},
		{[]string{"my day", "it's", "a;b", "$HOME", "~x"}, `sigma tune --trace 'my day' --trace 'it'\''s' --trace 'a;b' --trace '$HOME' --trace '~x' --out policy.yaml`},
	} {
		require.Equal(t, c.command, newVerdict(list, c.paths).Command)
	}
}
