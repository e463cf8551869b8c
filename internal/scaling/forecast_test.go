package scaling

import (
	"flag"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/cputime"
	"github.com/sigma-scheduler/sigma/internal/learn/nn"
	"github.com/sigma-scheduler/sigma/mpa"
	"github.com/sigma-scheduler/sigma/mpa/agents"
	"github.com/sigma-scheduler/sigma/mpa/learned"
	"github.com/sigma-scheduler/sigma/mpa/loadsim"
	"github.com/sigma-scheduler/sigma/mpa/sim"
)

var forecastRuns = flag.Int("forecast-runs", 4, "held out scenarios in which a forecast acts; 60 for the figures")

const (
	forecastStep  = 15. // seconds
	forecastFirst = 650_000
	forecastLoads = 500 // that it is trained on or judged by
	// forecastPace is how fast online recalibration moves the logarithm of a quantile.
	forecastPace = .05
)

var (
	// Steps ago whose rates a forecast sees.
	forecastLags = []int{1, 2, 3, 4, 6, 8, 12, 16, 20, 28, 40, 60, 80, 120, 180, 240}
	// Steps ahead within which it tells the largest rate, and the quantiles of that.
	forecastSpans     = []int{7, 20, 40}
	forecastQuantiles = []float32{.5, .75, .9, .97}
)

// seen returns what is measured of a load every 15 s: the rate of the last minute, with the
// noise of a Poisson process.
func seen(rng *rand.Rand, load loadsim.Load) []float64 {
	const window = 4
	var list, steps []float64
	for t := 0.; t < 3*3600; t += forecastStep {
		rate, _ := load.Rate(t)
		steps = append(steps, rate)
		mean := 0.
		last := steps[max(0, len(steps)-window):]
		for _, r := range last {
			mean += r / float64(len(last))
		}
		list = append(list, max(0, mean+rng.NormFloat64()*math.Sqrt(mean/(window*forecastStep))))
	}
	return list
}

// forecastInput writes what a forecast sees at a step: logarithms of earlier rates ÷ the present one,
// and the noise of that. It reports whether there is a rate.
func forecastInput(rates []float64, out []float32) bool {
	now := rates[len(rates)-1]
	if now <= 0 {
		return false
	}
	for i, lag := range forecastLags {
		before := rates[max(0, len(rates)-1-lag)]
		out[i] = float32(max(-3, min(3, math.Log(max(1e-9, before)/now))))
	}
	out[len(forecastLags)] = float32(5 / math.Sqrt(60*now))
	return true
}

// samples returns what is seen each minute of a load, and in hindsight the logarithm of the largest
// rate within each span ÷ the present one.
func samples(rng *rand.Rand, load loadsim.Load) (x, y [][]float32) {
	rates := seen(rng, load)
	for at := 4; at+slices.Max(forecastSpans) < len(rates); at += 4 {
		in, out := make([]float32, len(forecastLags)+1), make([]float32, len(forecastSpans))
		if !forecastInput(rates[:at+1], in) {
			continue
		}
		for i, span := range forecastSpans {
			most := 1e-9
			for k := 1; k <= span; k++ {
				rate, _ := load.Rate(float64(at+k) * forecastStep)
				most = max(most, rate)
			}
			out[i] = float32(max(-3, min(3, math.Log(most/rates[at]))))
		}
		x, y = append(x, in), append(y, out)
	}
	return x, y
}

func matrix(rows [][]float32) nn.Matrix[float32] {
	m := nn.NewMatrix[float32](len(rows), len(rows[0]))
	for i, r := range rows {
		copy(m.Row(i), r)
	}
	return m
}

// trainForecast fits the network to quantiles of hindsight.
func trainForecast(t *testing.T, x, y [][]float32) *nn.MLP[float32] {
	t.Helper()
	const batch, updates, fast, slow = 64, 4000, 2e-3, 1e-4
	rng := rand.New(rand.NewPCG(1, 0xf0))
	net, err := nn.NewMLP[float32](rng, nn.Shape{
		Sizes: []int{len(x[0]), 32, 32, len(forecastSpans) * len(forecastQuantiles)}, Hidden: nn.Tanh, Output: nn.Linear,
	}, 0)
	require.NoError(t, err)
	pass, adam := net.Pass(batch), nn.NewAdam[float32](fast, len(net.Params()))
	in, want, grad := nn.NewMatrix[float32](batch, len(x[0])), nn.NewMatrix[float32](batch, len(y[0])), nn.NewMatrix[float32](batch, net.Shape().Sizes[3])
	by := make([]float32, len(net.Params()))
	for i := range updates {
		for row := range batch {
			at := rng.IntN(len(x))
			copy(in.Row(row), x[at])
			copy(want.Row(row), y[at])
		}
		nn.Pinball(pass.Forward(in), want, forecastQuantiles, grad)
		clear(by)
		pass.Backward(grad, by, false)
		adam.Rate = fast * math.Pow(slow/fast, float64(i)/updates)
		adam.Step(net.Params(), by)
	}
	return net
}

// quantileOf returns the quantile of a span over all samples: the best constant.
func quantileOf(y [][]float32, span int, q float32) float32 {
	values := make([]float32, len(y))
	for i := range y {
		values[i] = y[i][span]
	}
	slices.Sort(values)
	return values[int(q*float32(len(values)))]
}

// quantileLoss returns the mean pinball loss of a span and quantile, and how often it was enough.
func quantileLoss(y [][]float32, span, quantile int, predicted func(i int) float32) (loss, enough float64) {
	q := float64(forecastQuantiles[quantile])
	for i := range y {
		d := float64(y[i][span] - predicted(i))
		loss += max(q*d, (q-1)*d) / float64(len(y))
		if d <= 0 {
			enough += 1 / float64(len(y))
		}
	}
	return loss, enough
}

// A forecaster is the agent learned with a forecast, which it recalibrates by what comes.
type forecaster struct {
	*learned.Agent
	pass  *nn.MLPPass[float32]
	rates []float64
	asked []float64   // rates foretold for soon, a step; 0 = none
	shift float64     // of their logarithm
	in    [][]float32 // of one row
	rate  float64     // the last one seen
	want  func(soon, later float64) (float64, float64)
}

const soonQuantile, laterQuantile = 2, 2 // of .9

// Recommend implements [mpa.Agent].
func (f *forecaster) Recommend(o *mpa.Observation) mpa.Recommendation {
	if o.Rate.Known(o.Time, 2*time.Minute) {
		f.rate = o.Rate.Value
	}
	f.rates = append(f.rates, f.rate)
	return f.Agent.Recommend(o)
}

func (f *forecaster) forecast(time.Time) (soon, later float64) {
	if len(f.rates) < 5 || !forecastInput(f.rates, f.in[0]) {
		f.asked = append(f.asked, 0)
		return 0, 0
	}
	out := f.pass.Forward(matrix(f.in)).Row(0)
	n, each := len(f.asked), len(forecastQuantiles)
	if span := forecastSpans[0]; n >= span && f.asked[n-span] > 0 {
		missed := 0.
		if slices.Max(f.rates[len(f.rates)-span:]) > f.asked[n-span] {
			missed = 1
		}
		f.shift = max(0, f.shift+forecastPace*(missed-float64(1-forecastQuantiles[soonQuantile])))
	}
	soon = f.rate * math.Exp(float64(out[soonQuantile])+f.shift)
	later = f.rate * math.Exp(float64(out[2*each+laterQuantile])+f.shift)
	f.asked = append(f.asked, soon)
	return f.want(soon, later)
}

// A forecast that is good by its loss need not help: on families that it never saw its loss is a
// fraction of that of the best constants, and the agent that goes by it is no better by the
// objective on the validation split. So the shipped agent has none.
func TestForecast(t *testing.T) {
	g, err := sim.NewGenerator("train", "")
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(1, 0xf0ca57))
	var x, y [][]float32
	var judged [2]struct{ x, y [][]float32 } // by loads of the same families, and of others
	held := &split{}
	for i := range uint64(forecastLoads) {
		s, err := g.Generate(forecastFirst + i)
		require.NoError(t, err)
		a, b := samples(rng, s.Load)
		switch other := slices.Contains(heldFamilies, s.Name); {
		case other && len(held.scenarios) < *forecastRuns:
			held.add(s, forecastFirst+i)
			fallthrough
		case other:
			judged[1].x, judged[1].y = append(judged[1].x, a...), append(judged[1].y, b...)
		case i%6 == 0:
			judged[0].x, judged[0].y = append(judged[0].x, a...), append(judged[0].y, b...)
		default:
			x, y = append(x, a...), append(y, b...)
		}
	}
	begin := cputime.Process()
	net := trainForecast(t, x, y)
	t.Logf("%d samples, trained in %.1f CPU-s", len(x), cputime.Process()-begin)
	for k, name := range []string{"other loads of its families", "other families"} {
		set := &judged[k]
		out := net.Pass(len(set.x)).Forward(matrix(set.x))
		for i, span := range forecastSpans {
			for j, q := range forecastQuantiles {
				constant := quantileOf(y, i, q)
				without, _ := quantileLoss(set.y, i, j, func(int) float32 { return constant })
				with, enough := quantileLoss(set.y, i, j, func(k int) float32 { return out.Row(k)[i*len(forecastQuantiles)+j] })
				t.Logf("%s, %.0f s, quantile %.2f: loss %+.0f %%, enough in %.1f %%", name, float64(span)*forecastStep, q, 100*(with/without-1), 100*enough)
				if k == 0 && i == 2 && q == .9 {
					assert.Less(t, with, .8*without, "a good forecast, or the test shows nothing")
				}
			}
		}
	}
	held.pair, err = held.run(t.Context(), Agent{Name: "hpa+vpa"}, 2)
	require.NoError(t, err)
	act := func(name string, want func(soon, later float64) (float64, float64)) (objective float64) {
		results := make([]sim.Result, len(held.scenarios))
		for i := range held.scenarios {
			s := &held.scenarios[i]
			cfg := s.Config(held.seeds[i])
			agent := agents.NewLearned(cfg.App.Target, learned.General().Values)
			if inner := agent.First.(*learned.Agent); want != nil {
				acts := &forecaster{Agent: inner, pass: net.Pass(1), in: [][]float32{make([]float32, len(x[0]))}, want: want}
				inner.Forecast, agent.First = acts.forecast, acts
			}
			cfg.Agent = agent
			results[i], err = sim.Run(t.Context(), cfg)
			require.NoError(t, err)
			objective += results[i].Objective(s.App.Target.SLO, &held.pair[i]) / float64(len(results))
		}
		f := figures(held.scenarios, 0, results, held.pair)
		t.Logf("%-34s objective %.3f, cost %.3f ± %.3f, kept %d of %d", name, objective, f.Ratio, f.Half, f.Kept, len(results))
		return objective
	}
	rules := act("rules", nil)
	beside := act("a forecast beside them", func(soon, _ float64) (float64, float64) { return soon, 0 })
	shrinks := act("a forecast for shrinking", func(_, later float64) (float64, float64) { return 0, later })
	both := act("a forecast for both", func(soon, later float64) (float64, float64) { return soon, later })
	assert.Less(t, rules, min(beside, shrinks, both)+.02, "taken where the validation split says so: it is worth more now")
}
