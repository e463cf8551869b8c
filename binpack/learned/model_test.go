package learned_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/learned"
	"github.com/sigma-scheduler/sigma/binpack/packtest"
)

// sum has a feature per dimension, and classes weigh by class.
var (
	sum = learned.Model{
		Name: "sum", Knowledge: []binpack.Knowledge{binpack.K0, binpack.K2}, OneDimension: true,
		Features:   []learned.Feature{{Name: "used", PerDimension: true}, {Name: "items"}},
		Parameters: []learned.Parameter{{Name: "z", Low: -1, High: 1}, {Name: "a", Low: 0, High: 2}},
	}
	classes = learned.Model{
		Name: "classes", Features: []learned.Feature{{Name: "used"}, {Name: "items"}}, Classes: []string{"small", "large"},
	}
)

func TestFeatureNames(t *testing.T) {
	require.Equal(t, []string{"used", "items"}, sum.FeatureNames())
	require.Equal(t, []string{"used@small", "items@small", "used@large", "items@large"}, classes.FeatureNames())
	for _, c := range []struct {
		m    *learned.Model
		name string
		at   int
		of   string
	}{
		{&sum, "used", 0, ""},
		{&sum, "items", 1, ""},
		{&sum, "used:cpu", 0, "cpu"},
		{&sum, "used:a:b", 0, "a:b"},
		{&sum, "used:", -1, ""},
		{&sum, "items:cpu", -1, ""},
		{&sum, "used@small", -1, ""},
		{&sum, "", -1, ""},
		{&classes, "items@large", 1, "large"},
		{&classes, "items", -1, ""},
		{&classes, "items@", -1, ""},
		{&classes, "items@huge", -1, ""},
		{&classes, "used:cpu", -1, ""},
	} {
		at, of := c.m.Feature(c.name)
		require.Equal(t, c.at, at, c.name)
		require.Equal(t, c.of, of, c.name)
	}
}

func TestCheck(t *testing.T) {
	one := []float64{1}
	for want, c := range map[string]struct {
		m *learned.Model
		s learned.Spec
	}{
		"":                                   {&sum, learned.Spec{Features: []string{"used:cpu", "used"}, Weights: []float64{-100, 100}, Parameters: map[string]float64{"z": -1, "a": 2}}},
		`spec.weights has 1 numbers for 0`:   {&sum, learned.Spec{Weights: one}},
		`spec.features[0] "x": known are us`: {&sum, learned.Spec{Features: []string{"x"}, Weights: one}},
		`spec.features[1] "used" is listed `: {&sum, learned.Spec{Features: []string{"used", "used"}, Weights: []float64{1, 1}}},
		`spec.weights[0] NaN of feature "us`: {&sum, learned.Spec{Features: []string{"used"}, Weights: []float64{math.NaN()}}},
		`spec.parameters.b: the model sum h`: {&sum, learned.Spec{Parameters: map[string]float64{"b": 1}}},
		`spec.parameters.b: the model class`: {&classes, learned.Spec{Parameters: map[string]float64{"b": 1}}},
		`spec.parameters.z 1.5: want -1 to `: {&sum, learned.Spec{Parameters: map[string]float64{"z": 1.5}}},
		`spec.knowledge "K1": the model sum`: {&sum, learned.Spec{Knowledge: binpack.K1}},
	} {
		if err := c.m.Check(c.s); want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
}

func TestSuits(t *testing.T) {
	three := packtest.Small(binpack.K0).Instance()
	require.ErrorContains(t, sum.Suits(nil, three), "packs one dimension; there are cpu, memory, disk")
	several := sum
	several.OneDimension = false
	require.NoError(t, several.Suits([]string{"used", "used:disk"}, three))
	require.EqualError(t, several.Suits([]string{"used", "used:gpu"}, three), `features[1] "used:gpu": there is no dimension "gpu"; there are cpu, memory, disk`)
	require.NoError(t, classes.Suits([]string{"used@small"}, three))
}
