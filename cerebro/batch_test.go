package cerebro_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/binpack"
	"github.com/sigma-scheduler/sigma/binpack/rule"
	"github.com/sigma-scheduler/sigma/cerebro"
	"github.com/sigma-scheduler/sigma/cerebro/trace"
	"github.com/sigma-scheduler/sigma/internal/usage"
)

// one is an item of 4 cores on a machine of 10, with the use of each step of 5 minutes.
func one(use ...float32) (*trace.Trace, *trace.Usage) {
	t := &trace.Trace{
		Name: "one", MeasureFrom: math.NaN(),
		Instance: &binpack.Instance{
			Dimensions: []binpack.Dimension{{Name: "cpu", Unit: "m", One: 1000}, {Name: "memory", One: 1}}, Types: []string{"n"}, Fleet: binpack.Open,
			Machines: []binpack.MachineLine{{Name: "n", Count: binpack.Unlimited, Cost: 1, Capacity: []int64{10_000, 64 << 30}}},
			Groups:   []binpack.Group{{Name: "a"}},
			Apps:     []binpack.App{{Name: "a", Demand: []int64{4000, 32 << 30}, Expected: -1, Lifetime: -1}},
		},
		Requests: []trace.Request{{Name: "r", Count: 1}},
		Events:   []trace.Event{{Kind: trace.Create, Count: 1}},
	}
	return t, &trace.Usage{Series: []trace.Series{{Step: 300, Values: use}}}
}

func fill(t *testing.T, b cerebro.Batch, use ...float32) *cerebro.BatchUse {
	t.Helper()
	tr, u := one(use...)
	run, err := cerebro.NewReplayer(tr).Run(rule.BestFit{}, cerebro.Options{Usage: u, Batch: &b})
	require.NoError(t, err)
	require.NotNil(t, run.Use.Batch)
	return run.Use.Batch
}

// long tasks do not end in a test.
func long() cerebro.Batch {
	return cerebro.Batch{Cores: 1, Mean: 1e9, Grace: usage.BatchGrace, Seed: 1, Offer: func(capacity, used float64) float64 { return .8*capacity - used }}
}

func TestTasksGetWhatItemsLeave(t *testing.T) {
	b := fill(t, long(), 2, 2, 2)
	assert.Equal(t, 6, b.Started)
	assert.Zero(t, b.Evicted)
	assert.InDelta(t, 3*300*10, b.Capacity, 1e-6)
	assert.InDelta(t, 3*300*6, b.Offered, 1e-6)
	assert.InDelta(t, 2*300*6, b.Held, 1e-6, "they come after the first step")
	assert.InDelta(t, b.Held, b.Delivered, 1e-6)
	assert.Zero(t, b.Starved)
}

func TestTasksStarveAndTheYoungestLeave(t *testing.T) {
	b := fill(t, long(), 2, 5, 5)
	assert.Zero(t, b.Evicted, "5 of 6 cores are more than 60 %")
	assert.InDelta(t, 2*300*6, b.Starved, 1e-6)
	assert.InDelta(t, 2*300*5, b.Delivered, 1e-6)

	b = fill(t, long(), 2, 8, 8)
	assert.Equal(t, 3, b.Evicted, "2 cores are 60 % of three tasks")
	assert.InDelta(t, 300*(6+3), b.Held, 1e-6)
	assert.InDelta(t, 300*3./3, b.Lost, 1e-3, "three had a third of a core")

	b = fill(t, long(), 2, 12, 12)
	assert.Equal(t, 6, b.Evicted, "nothing is left")
}

func TestTasksAboveTheOfferLeaveAfterTheGrace(t *testing.T) {
	tasks := long()
	tasks.Grace = 600
	assert.Zero(t, fill(t, tasks, 2, 4, 4).Evicted)
	assert.Equal(t, 2, fill(t, tasks, 2, 4, 4, 4).Evicted)
	tasks.Grace = math.Inf(1)
	assert.Zero(t, fill(t, tasks, 2, 4, 4, 4).Evicted)
}

func TestTasksEndAndOthersCome(t *testing.T) {
	tasks := long()
	tasks.Mean = 600
	use := make([]float32, 2000)
	b := fill(t, tasks, use...)
	assert.InEpsilon(t, 8*2000*300/(600+150), b.Started, .05, "a task waits half of a step for its end to be seen")
	assert.Equal(t, b, fill(t, tasks, use...), "same seed, same tasks")
	tasks.Seed = 2
	assert.NotEqual(t, b.Started, fill(t, tasks, use...).Started)
}

func TestTasksFitTheMemoryThatIsLeft(t *testing.T) {
	tasks := long()
	tasks.Memory = 12 << 30
	assert.Equal(t, 2, fill(t, tasks, 2, 2, 2).Started, "32 of 64 GiB")
}

func TestStepsWithoutSamplesDoNotCount(t *testing.T) {
	nan := float32(math.NaN())
	b := fill(t, long(), 2, nan, nan, 2)
	assert.Zero(t, b.Evicted)
	assert.InDelta(t, 2*300*10, b.Capacity, 1e-6)
}

func TestBatchBySlots(t *testing.T) {
	tasks := long()
	tasks.Offer = nil
	var nights []float64
	tasks.Expected = func(midnight, at float64) func(int32) float64 {
		nights = append(nights, midnight)
		return func(int32) float64 {
			if at >= 3*3600 {
				return 6
			}
			return 3
		}
	}
	b := fill(t, tasks, make([]float32, 60)...)
	assert.Equal(t, 3, b.Started, "3.5 of 6.5 cores: the hours after three need 6, and more cannot come before that is seen")
	assert.Zero(t, b.Evicted)
	assert.NotEmpty(t, nights)
	for _, at := range nights {
		require.Zero(t, at)
	}
}

func TestBatchSettings(t *testing.T) {
	b, err := cerebro.ParseBatch("cores=500m,mean=30m,memory=2Gi,grace=1h,seed=7")
	require.NoError(t, err)
	assert.Equal(t, cerebro.Batch{Cores: .5, Mean: 1800, Memory: 2 << 30, Grace: 3600, Seed: 7}, *b)
	for _, bad := range []string{"", "cores=0", "cores=x", "mean=0s", "mean=1", "grace=-1h", "seed=-1", "memory=-1Gi", "cpu=1", "cores=1,cores=1"} {
		_, err := cerebro.ParseBatch(bad)
		require.Error(t, err, bad)
	}
	tr, _ := one()
	_, err = cerebro.NewReplayer(tr).Run(rule.BestFit{}, cerebro.Options{Batch: b})
	require.ErrorContains(t, err, "wants a trace with usage.csv.gz")
}
