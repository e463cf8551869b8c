package learned_test

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/mpa/learned"
)

func TestPolicy(t *testing.T) {
	p := learned.Policy{Name: "mine", Values: learned.Defaults(), Provenance: learned.Provenance{Method: "swarm", FirstScenario: 7, Scenarios: 3}}
	text, err := p.Marshal()
	require.NoError(t, err)
	again, err := learned.Parse("mine.yaml", text)
	require.NoError(t, err)
	assert.Equal(t, p.Values, again.Values)
	assert.Equal(t, p.Provenance, again.Provenance)
	assert.True(t, again.Provenance.Seen(9) && !again.Provenance.Seen(10) && !again.Provenance.Seen(6))
	assert.NotEmpty(t, again.Digest)
	for _, test := range []struct{ from, to, err string }{
		{"    kappa: ", "    kapa: ", "x.yaml: line 20: spec.numbers.kapa: there is no such number"},
		{"    kappa: ", "    recentShare: ", "line 20: spec.numbers.recentShare is given twice"},
		{"    kappa: 0.7", "    kappa: 7", "x.yaml: line 20: spec.numbers.kappa: 7 is not within 0 and 2"},
		{"    kappa: 0.7", "    kappa: .nan", `line 20: spec.numbers.kappa: ".nan" is not a finite number`},
		{"    kappa: 0.7\n", "", "spec.numbers.kappa is missing"},
		{"version: 1", "version: 2", "spec.version 2: this program knows 1"},
		{"kind: ScalingPolicy", "kind: PlacementPolicy", "kind \"PlacementPolicy\": want"},
		{"name: mine", "name: \"\"", "metadata.name is empty"},
		{"firstScenario: 7", "firstScenario: 899999", "trained on scenarios from 900000 up"},
		{"spec:", "specs:", "x.yaml: line 5: field specs not found"},
	} {
		require.Contains(t, string(text), test.from)
		_, err := learned.Parse("x.yaml", []byte(strings.Replace(string(text), test.from, test.to, 1)))
		require.ErrorContains(t, err, test.err)
	}
	_, err = learned.Parse("x.yaml", []byte("# nothing\n"))
	require.EqualError(t, err, "x.yaml: the file is empty")
}

// What a cluster has is the file that was applied.
func TestRead(t *testing.T) {
	p := learned.Policy{Name: "mine", Values: learned.Defaults(), Provenance: learned.Provenance{Method: "swarm", FirstScenario: 7, Scenarios: 3, Objective: .1 + .2}}
	text, err := p.Marshal()
	require.NoError(t, err)
	file, err := learned.Parse("mine.yaml", text)
	require.NoError(t, err)
	numbers := func() map[string]float64 {
		m := map[string]float64{}
		for i, n := range learned.Numbers {
			m[n.Name] = p.Values[i]
		}
		return m
	}
	again, data, err := learned.Read("mine", learned.Version, numbers(), p.Provenance)
	require.NoError(t, err)
	assert.Equal(t, file, again)
	assert.Equal(t, string(text), string(data))
	for _, test := range []struct {
		change  func(m map[string]float64)
		version int
		from    learned.Provenance
		err     string
	}{
		{version: 2, err: "spec.version 2: this program knows 1"},
		{version: 1, from: learned.Provenance{FirstScenario: learned.FirstTestSeed, Scenarios: 1}, err: "spec.provenance: trained on scenarios from 900000 up"},
		{version: 1, from: learned.Provenance{FirstScenario: math.MaxUint64, Scenarios: 1}, err: "spec.provenance: trained on scenarios from 900000 up"},
		{version: 1, change: func(m map[string]float64) { m["kapa"] = 1 }, err: "spec.numbers.kapa: there is no such number"},
		{version: 1, change: func(m map[string]float64) { m["kappa"] = 7 }, err: "spec.numbers.kappa: 7 is not within 0 and 2"},
		{version: 1, change: func(m map[string]float64) { m["kappa"] = math.NaN() }, err: "spec.numbers.kappa: NaN is not within 0 and 2"},
		{version: 1, change: func(m map[string]float64) { delete(m, "kappa") }, err: "spec.numbers.kappa is missing"},
	} {
		m := numbers()
		if test.change != nil {
			test.change(m)
		}
		_, _, err := learned.Read("mine", test.version, m, test.from)
		require.ErrorContains(t, err, test.err)
	}
}

func TestShippedPolicy(t *testing.T) {
	assert.Equal(t, "general", learned.General().Name)
}

func TestNumbers(t *testing.T) {
	for _, n := range learned.Numbers {
		assert.True(t, n.Name != "" && n.Unit != "" && n.Help != "" && n.Min < n.Max && n.Default >= n.Min && n.Default <= n.Max, "%+v", n)
	}
}

// The table of docs/mpa-learned.md is that of the code.
func TestNumbersInTheDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/mpa-learned.md")
	require.NoError(t, err)
	var b strings.Builder
	b.WriteString("| number | unit | box | by hand | what it is |\n|---|---|---|---|---|\n")
	for _, n := range learned.Numbers {
		note := ""
		if n.Fixed {
			note = " (not searched)"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %v … %v | %v | %s%s |\n", n.Name, n.Unit, n.Min, n.Max, n.Default, n.Help, note)
	}
	_, table, ok := strings.Cut(string(text), "<!-- numbers:start -->\n")
	require.True(t, ok)
	table, _, ok = strings.Cut(table, "<!-- numbers:end -->")
	require.True(t, ok)
	require.Equal(t, b.String(), table)
}
