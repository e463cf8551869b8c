package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/lab/records"
	"github.com/sigma-scheduler/sigma/mpa/capacity"
)

// points of a pod that takes 10 % of its memory at rest and 5 % a request.
func points(rates map[int]float64, killed int) curve {
	c := curve{Profile: "mem"}
	for _, n := range []int{1, 4, 8, 16, 32} {
		if rates[n] == 0 {
			continue
		}
		p := point{Limit: n, Simulated: rates[n] * 1.04}
		p.Window.Answered, p.Window.Length = capacity.Some(10*rates[n]), capacity.Some(10)
		p.Window.Memory, p.Window.MemoryLimit = capacity.Some(.1+.05*float64(n)), capacity.Some(1)
		p.Window.CPU = capacity.Some(.01 * rates[n])
		if n >= killed {
			p.Kills = 1
		}
		c.Points = append(c.Points, p)
	}
	return c
}

var rising = map[int]float64{1: 10, 4: 40, 8: 70, 16: 90, 32: 20}

func TestCurve(t *testing.T) {
	c := points(rising, 32)
	assert.Equal(t, 40., c.at(4))
	assert.Equal(t, 47.5, c.at(5))
	assert.Equal(t, 90., c.at(20), "the one above kills")
	assert.Equal(t, 20., c.at(310))
	assert.False(t, c.kills(31))
	assert.True(t, c.kills(32))
	// 8 takes .5: 13; that takes .75: 14; that takes .8: 14.
	assert.Equal(t, 14, c.reach(8))
	limit, rate := c.best(14, .93)
	assert.Equal(t, 85., rate)
	assert.Equal(t, 12, limit, "80 of 85, and 11 has 77.5")
}

func TestFound(t *testing.T) {
	c := points(rising, 32)
	steps := func(answers ...int) run {
		r := run{Profile: "mem", Learner: capacity.Default}
		for _, n := range answers {
			r.Steps = append(r.Steps, step{Limit: n, Answer: n, Rate: c.at(n)})
		}
		return r
	}
	for _, x := range []struct {
		want    int
		answers []int
	}{{1, []int{14, 13, 14}}, {3, []int{8, 9, 14, 14}}, {3, []int{14, 8, 14}}, {0, []int{14, 14, 8}}, {0, []int{14, 40}}} {
		r := steps(x.answers...)
		assert.Equal(t, x.want, r.found(&c), "%v", x.answers)
	}
	r := steps(8, 14)
	assert.InDelta(t, (1-70./85)/2, r.lost(&c), 1e-9)
}

// The page says what was missed, and is read back by the tables of records.
func TestPage(t *testing.T) {
	c := points(rising, 32)
	c.Points[1].Simulated = 45 // 12.5 % too much
	c.Points[4].Simulated = 99 // it was killed there
	found := run{Profile: "mem", Learner: capacity.Default, Steps: []step{{Answer: 8}, {Answer: 14}}, Most: 14}
	never := run{Profile: "mem", Learner: "ucb", Steps: []step{{Answer: 14}, {Answer: 1}}, Most: 14, Restarts: 3, Kills: 2}
	r := &results{Curves: []curve{c}, Runs: []run{found, never}, Learners: []string{capacity.Default, "ucb"}, Windows: 2, Left: []string{"`threads`: no python3"}, Version: "cgroup v1"}
	text := r.page("`make concurrency-validation` at commit abc.").String()
	tables, err := records.ParseTables(text)
	require.NoError(t, err)
	require.Len(t, tables, 3)
	verdicts := map[string]string{}
	for _, row := range tables[0].Rows {
		verdicts[row[1][:9]+row[2]] = row[6]
	}
	assert.Equal(t, map[string]string{"simulated12.5": "**missed**", "windows u2": "aim", "restarts 0": "aim"}, verdicts)
	assert.Equal(t, []string{"measured, a second", "10.0", "40.0", "70.0", "90.0", "killed"}, tables[1].Rows[0])
	assert.Equal(t, []string{"deviation, %", "+4.0", "+12.5", "+4.0", "+4.0", "–"}, tables[1].Rows[2])
	assert.Equal(t, []string{"mem", "`law+walk`", "2", "14", "14", "85 a second, 12", "100.0", "0", "0"}, tables[2].Rows[0])
	assert.Equal(t, []string{"mem", "`ucb`", "–", "1", "14", "85 a second, 12", "100.0", "3", "2"}, tables[2].Rows[1])
	assert.Equal(t, []string{"mem", "fixed 10", "–", "10", "", "", "11.8", "", ""}, tables[2].Rows[2])
	assert.Equal(t, []string{"mem", "fixed 100", "–", "100", "", "", "killed", "", ""}, tables[2].Rows[3])
	assert.Contains(t, text, "Left out: `threads`: no python3.")

	r.Runs[0].Steps[1].Answer = 1
	r.Runs[0].Restarts = 1
	text = r.page("").String()
	assert.Equal(t, 3, strings.Count(text, "**missed**"), "never found, and restarted")
}

func TestNamed(t *testing.T) {
	all, err := named(nil)
	require.NoError(t, err)
	assert.Len(t, all, 7)
	_, err = named([]string{"cpus"})
	require.EqualError(t, err, `unknown profile "cpus": want one of cpu, mixed, io, threads, mem, mem-gc, pool`)
}
