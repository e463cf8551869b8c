package loadsim

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat/distuv"
)

func TestReadLoad(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []float64 // requests per minute
		err  string
	}{
		"minutes":      {text: "minute,count\n0,60\n1,120\n", want: []float64{60, 120}},
		"no last line": {text: "count\n60\n120", want: []float64{60, 120}},
		"byte mark":    {text: "\ufeffcount\n60\n", want: []float64{60}},
		"left out":     {text: "period_utc,count\n1998-04-30 21:30:00,2\n1998-04-30 21:33:00,7\n", want: []float64{2, 0, 0, 7}},
		"tokens": {
			text: "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:00.5000000,1,1\n2023-11-16 18:00:59.9,1,1\n2023-11-16 18:01:00.6,1,1\n2023-11-16 18:02:40,1,1\n",
			want: []float64{2, 1}, // the third minute is not whole
		},
		"functions":  {text: "app,func,end_timestamp,duration\na,f,70,60\na,f,71,1\na,g,5,5\na,f,135,1\n", want: []float64{2, 1}},
		"one minute": {text: "app,func,end_timestamp,duration\na,f,70,60\n", want: []float64{1}},

		"empty":        {err: "the file is empty"},
		"no lines":     {text: "count\n", err: "no minutes"},
		"no requests":  {text: "count\n0\n", err: "no requests"},
		"no column":    {text: "minute,requests\n0,1\n", err: ":1: there is no column count"},
		"no duration":  {text: "end_timestamp\n1\n", err: ":1: there is no column count"},
		"no number":    {text: "count\n1\n\nx\n", err: `:4: count "x": want a number from 0 up`},
		"not a number": {text: "count\nNaN\n", err: `:2: count "NaN"`},
		"negative":     {text: "count\n-1\n", err: `:2: count "-1"`},
		"short line":   {text: "minute,count\n0,1\n1\n", err: "record on line 3: wrong number of fields"},
		"bad time":     {text: "TIMESTAMP\nnoon\n", err: `:2: TIMESTAMP "noon": want a time, as 2006-01-02 15:04:05`},
		"back in time": {text: "period_utc,count\n1998-04-30 21:30:00,2\n1998-04-30 21:30:00,7\n", err: `:3: period_utc "1998-04-30 21:30:00": want a minute after`},
		"far away":     {text: "period_utc,count\n1998-04-30 21:30:00,2\n2998-04-30 21:30:00,7\n", err: `:3: period_utc`},
		"for ever":     {text: "end_timestamp,duration\n1,1\n900000000000,1\n", err: "spread over"},
		"too busy":     {text: "count,max_per_second\n60,61\n", err: `:2: max_per_second "61": want count ÷ 60 to count, which is 60`},
		"too quiet":    {text: "count,max_per_second\n120,1\n", err: `:2: max_per_second "1"`},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "load.csv")
			require.NoError(t, os.WriteFile(path, []byte(test.text), 0o600))
			load, err := ReadLoad(path)
			if test.err != "" {
				require.ErrorContains(t, err, test.err)
				require.ErrorContains(t, err, path)
				return
			}
			require.NoError(t, err)
			for i := range load.PerSec {
				load.PerSec[i] *= 60
			}
			assert.InDeltaSlice(t, test.want, load.PerSec, 1e-9)
		})
	}
}

func TestFill(t *testing.T) {
	load, gaps := Load{Step: 60, PerSec: []float64{0, 3, 0, 0, 6, 0}}.Fill()
	assert.Equal(t, 4, gaps)
	assert.InDeltaSlice(t, []float64{3, 3, 4, 5, 6, 6}, load.PerSec, 1e-9)
	load, gaps = Load{Step: 60, PerSec: []float64{0, 0}}.Fill()
	assert.Equal(t, 2, gaps)
	assert.Equal(t, []float64{0, 0}, load.PerSec)
}

// Estimated bursts agree with the true ones, and with those of the arrivals.
func TestBursts(t *testing.T) {
	for _, mean := range []float64{8, 60, 300} {
		for _, cv := range []float64{0, .1, .3, .6} {
			rng := rand.New(rand.NewPCG(1, 2))
			second := func() float64 {
				rate := mean
				if cv > 0 {
					rate = distuv.Gamma{Alpha: 1 / cv / cv, Beta: 1 / cv / cv / mean, Src: rng}.Rand()
				}
				return distuv.Poisson{Lambda: rate, Src: rng}.Rand()
			}
			var rates, highs []float64
			for range 600 {
				sum, most := 0.0, 0.0
				for range 60 {
					n := second()
					sum, most = sum+n, max(most, n)
				}
				rates, highs = append(rates, sum/60), append(highs, most)
			}
			mean2 := 0.0
			for _, b := range bursts(rates, highs) {
				mean2 += b * b / 600
			}
			assert.InDelta(t, cv, math.Sqrt(mean2), .05+.2*cv, "mean %v, cv %v", mean, cv)
		}
	}
	assert.Nil(t, bursts([]float64{.7, .8}, []float64{9, 9}), "few requests say nothing")

	load := Load{Step: 60, PerSec: []float64{100, 40}, Burst: []float64{.4, 0}}
	rate := load.Arrivals(7)
	var sums, squares [2]float64
	for now := 0.0; now < 7200; {
		r, until := rate(now)
		require.Greater(t, until, now)
		minute := int(now/60) % 2
		sums[minute] += r * (until - now)
		squares[minute] += r * r * (until - now)
		now = until
	}
	assert.InDelta(t, 100, sums[0]/3600, 1e-6)
	assert.InDelta(t, 40, sums[1]/3600, 1e-9)
	assert.InDelta(t, .4, math.Sqrt(squares[0]/3600-1e4)/100, .03)
	again := load.Arrivals(7)
	for _, now := range []float64{0, 1, 61, 125, 119, 3} { // in any order
		want, _ := load.Arrivals(7)(now)
		got, _ := again(now)
		assert.InDelta(t, want, got, 0)
	}
	other, _ := load.Arrivals(8)(0)
	same, _ := load.Arrivals(7)(0)
	assert.NotEqual(t, same, other)
}

func TestSynthetic(t *testing.T) {
	at := func(name string, set map[string]string, hours float64) func(hour float64) float64 {
		load, err := Synthetic(name, set, hours, 1)
		require.NoError(t, err)
		require.InDelta(t, hours*3600, load.Step*float64(len(load.PerSec)), load.Step)
		return func(hour float64) float64 { r, _ := load.Rate(hour * 3600); return r }
	}
	quiet := func(pairs ...string) map[string]string {
		set := map[string]string{"noise": "0"}
		for i := 0; i < len(pairs); i += 2 {
			set[pairs[i]] = pairs[i+1]
		}
		return set
	}
	for name, test := range map[string]struct {
		set  map[string]string
		want map[float64]float64 // by hour of 6
	}{
		"step":        {quiet("low", "10", "high", "30"), map[float64]float64{0: 10, 1.99: 10, 2: 30, 3.99: 30, 4: 10}},
		"ramp":        {quiet("low", "10", "high", "30", "at", "1", "length", "4"), map[float64]float64{0: 10, 1: 10, 2: 15, 4: 25, 5: 30, 5.9: 30}},
		"flash-crowd": {quiet("at", "1", "rise", ".5", "length", "1", "fall", "2", "low", "10", "high", "90"), map[float64]float64{.9: 10, 1.25: 50, 1.5: 90, 2.4: 90, 4.5: 50}},
		"diurnal":     {quiet("low", "10", "high", "30", "period", "4", "peak", "1"), map[float64]float64{0: 20, 1: 30, 3: 10, 5: 30}},
	} {
		t.Run(name, func(t *testing.T) {
			rate := at(name, test.set, 6)
			for hour, want := range test.want {
				assert.InDelta(t, want, rate(hour), .02*want, "hour %v", hour)
			}
		})
	}
	t.Run("regime-change", func(t *testing.T) {
		rate := at("regime-change", quiet("length", "2", "low", "5", "high", "500"), 2000)
		changes, last := 0, 0.0
		for h := 0.0; h < 2000; h += .01 {
			r := rate(h)
			require.True(t, r >= 5 && r <= 500)
			if r != last {
				changes++
			}
			last = r
		}
		assert.InEpsilon(t, 1000, changes, .1)
	})
	t.Run("noise", func(t *testing.T) {
		load, err := Synthetic("step", map[string]string{"low": "100", "high": "100", "noise": ".3"}, 2000, 1)
		require.NoError(t, err)
		sum, squares := 0.0, 0.0
		for _, r := range load.PerSec {
			sum += r
			squares += r * r
		}
		n := float64(len(load.PerSec))
		assert.InEpsilon(t, 100, sum/n, .02)
		assert.InEpsilon(t, .3, math.Sqrt(squares/n-sum*sum/n/n)/100, .05)
	})
	for _, f := range Families() {
		a, err := Synthetic(f.Name, nil, 5, 1)
		require.NoError(t, err)
		b, err := Synthetic(f.Name, nil, 5, 1)
		require.NoError(t, err)
		assert.Equal(t, a, b)
		for _, q := range f.Params {
			assert.NotEmpty(t, q.Help)
			_, err := Synthetic(f.Name, map[string]string{q.Name: "-1"}, 5, 1)
			require.ErrorContains(t, err, f.Name+": "+q.Name+"=-1 is not within")
		}
	}
	for text, set := range map[string]map[string]string{
		`unknown parameter "hgih"; there are low, high`: {"hgih": "1"},
		`high="x" is not a number`:                      {"high": "x"},
		"high=NaN is not within":                        {"high": "NaN"},
		"high=3 is below low=4":                         {"low": "4", "high": "3"},
	} {
		_, err := Synthetic("step", set, 5, 1)
		require.ErrorContains(t, err, text)
	}
	_, err := Synthetic("stpe", nil, 5, 1)
	require.ErrorContains(t, err, `unknown load "stpe"; there are step, ramp, flash-crowd, diurnal, regime-change`)
	_, err = Synthetic("step", nil, math.NaN(), 1)
	require.Error(t, err)
}

// The public traces, if present, have the totals that their pages state.
func TestPublicTraces(t *testing.T) {
	dir := os.Getenv("SIGMA_DATA")
	if dir == "" {
		t.Skip("SIGMA_DATA names no folder of data")
	}
	for name, requests := range map[string]float64{
		"worldcup98_rpm": 1_352_804_107, "nasa_http_1995_rpm": 3_461_596, "twitter_stream_2021_08_rpm": 120_774_324,
		"azure_llm_2023_code": 8819, "azure_llm_2023_conv": 19366, "azure2021_200": 199,
	} {
		load, err := ReadLoad(filepath.Join(dir, "workloads", name+".csv"))
		require.NoError(t, err)
		sum := 0.0
		for _, r := range load.PerSec {
			sum += r * load.Step
		}
		slack := 1e-9
		if strings.HasPrefix(name, "azure") {
			slack = .03 // the last minute
		}
		assert.InEpsilon(t, requests, sum, slack, name)
		assert.Equal(t, name == "twitter_stream_2021_08_rpm" || name == "azure_llm_2023_conv", load.Burst != nil, name)
	}
}
