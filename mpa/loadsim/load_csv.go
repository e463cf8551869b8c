package loadsim

import (
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ReadLoad reads a load from a CSV file with a header line. The columns give its kind:
//
//	count           requests per minute, a line a minute. With period_utc, the time of
//	                the minute, minutes that are left out have no requests; with
//	                max_per_second, the largest number of requests in a second of it,
//	                the load has bursts.
//	TIMESTAMP       a line a request, as in the Azure traces of language models
//	end_timestamp   and duration, in seconds: a line a request, as in the trace of Azure
//	                Functions of 2021; a request arrives when it begins
//
// The last minute of a list of requests is incomplete and left out. Errors name file, line
// and field.
func ReadLoad(path string) (Load, error) {
	f, err := os.Open(path)
	if err != nil {
		return Load{}, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	r := &loadReader{path: path, csv: csv.NewReader(f)}
	r.csv.ReuseRecord = true
	head, err := r.csv.Read()
	if errors.Is(err, io.EOF) {
		return Load{}, fmt.Errorf("%s: the file is empty", path)
	}
	if err != nil {
		return Load{}, fmt.Errorf("%s: %w", path, err)
	}
	head = slices.Clone(head)
	head[0] = strings.TrimPrefix(head[0], "\ufeff")
	column := func(name string) int { return slices.Index(head, name) }
	var load Load
	switch {
	case column("count") >= 0:
		load, err = r.minutes(column("count"), column("max_per_second"), column("period_utc"))
	case column("TIMESTAMP") >= 0:
		load, err = r.requests(func(row []string) (float64, error) { return r.time(row, column("TIMESTAMP"), "TIMESTAMP") })
	case column("end_timestamp") >= 0 && column("duration") >= 0:
		end, length := column("end_timestamp"), column("duration")
		load, err = r.requests(func(row []string) (float64, error) {
			to, err1 := r.number(row, end, "end_timestamp")
			d, err2 := r.number(row, length, "duration")
			return to - d, cmp.Or(err1, err2)
		})
	default:
		return Load{}, fmt.Errorf("%s:1: there is no column count (requests per minute), TIMESTAMP, or end_timestamp with duration (a line a request)", path)
	}
	if err != nil {
		return Load{}, err
	}
	if load.Peak() == 0 {
		return Load{}, fmt.Errorf("%s: no requests", path)
	}
	return load, nil
}

type loadReader struct {
	path string
	csv  *csv.Reader
}

// each calls f with every line.
func (r *loadReader) each(f func(row []string) error) error {
	for {
		row, err := r.csv.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", r.path, err)
		}
		if err := f(row); err != nil {
			return err
		}
	}
}

func (r *loadReader) errorf(column int, name, value, want string) error {
	line, _ := r.csv.FieldPos(column)
	return fmt.Errorf("%s:%d: %s %q: want %s", r.path, line, name, value, want)
}

func (r *loadReader) number(row []string, column int, name string) (float64, error) {
	v, err := strconv.ParseFloat(row[column], 64)
	if err != nil || !(v >= 0 && v < 1e12) {
		return 0, r.errorf(column, name, row[column], "a number from 0 up")
	}
	return v, nil
}

// time is in seconds since 1970.
func (r *loadReader) time(row []string, column int, name string) (float64, error) {
	for _, layout := range []string{time.DateTime, time.RFC3339} {
		if t, err := time.Parse(layout, row[column]); err == nil {
			return float64(t.UnixMicro()) / 1e6, nil
		}
	}
	return 0, r.errorf(column, name, row[column], "a time, as 2006-01-02 15:04:05")
}

// mostGap is the largest gap of a trace in minutes: a month.
const mostGap = 31 * 24 * 60

func (r *loadReader) minutes(count, most, period int) (Load, error) {
	load := Load{Step: 60}
	var highs []float64
	last := math.NaN() // minute
	err := r.each(func(row []string) error {
		n, err := r.number(row, count, "count")
		if err != nil {
			return err
		}
		if period >= 0 {
			t, err := r.time(row, period, "period_utc")
			if err != nil {
				return err
			}
			minute := math.Floor(t / 60)
			if minute <= last || minute > last+mostGap {
				return r.errorf(period, "period_utc", row[period], "a minute after that of the line before, by a month at most")
			}
			for m := last + 1; m < minute; m++ {
				load.PerSec, highs = append(load.PerSec, 0), append(highs, 0)
			}
			last = minute
		}
		high := 0.0
		if most >= 0 {
			if high, err = r.number(row, most, "max_per_second"); err != nil {
				return err
			}
			if high > n || 60*high < n {
				return r.errorf(most, "max_per_second", row[most], fmt.Sprintf("count ÷ 60 to count, which is %v", n))
			}
		}
		load.PerSec, highs = append(load.PerSec, n/60), append(highs, high)
		return nil
	})
	if err != nil {
		return Load{}, err
	}
	if len(load.PerSec) == 0 {
		return Load{}, fmt.Errorf("%s: no minutes", r.path)
	}
	if most >= 0 {
		load.Burst = bursts(load.PerSec, highs)
	}
	return load, nil
}

func (r *loadReader) requests(when func(row []string) (float64, error)) (Load, error) {
	var times []float64
	err := r.each(func(row []string) error {
		t, err := when(row)
		times = append(times, t)
		return err
	})
	if err != nil {
		return Load{}, err
	}
	if len(times) == 0 {
		return Load{}, fmt.Errorf("%s: no requests", r.path)
	}
	slices.Sort(times)
	first, last := times[0], times[len(times)-1]
	if last-first > 60*mostGap {
		return Load{}, fmt.Errorf("%s: the requests spread over %.0f days: want a month at most", r.path, (last-first)/86400)
	}
	n := max(1, int((last-first)/60))
	perSecond := make([]int, 60*n)
	for _, t := range times {
		if i := int(t - first); i < len(perSecond) {
			perSecond[i]++
		}
	}
	load := Load{Step: 60, PerSec: make([]float64, n)}
	highs := make([]float64, n)
	for m := range n {
		for _, k := range perSecond[60*m : 60*m+60] {
			load.PerSec[m] += float64(k) / 60
			highs[m] = max(highs[m], float64(k))
		}
	}
	load.Burst = bursts(load.PerSec, highs)
	return load, nil
}

// bursts estimates how unsteady the rate is within each minute from its mean and its
// busiest second. The largest of 60 draws of mean m and variance v lies about
// (2.32 + .73 · skewness) √v above m and scatters by .43 √v itself; Poisson counts of
// rates that are gamma-distributed with a coefficient of variation c have
// v = m(1 + c²m). One minute is a small sample, so it is pooled with its neighbours; loads
// below fewest per second count as steady.
func bursts(perSecond, highs []float64) []float64 {
	const (
		neighbours = 30
		fewest     = 5
		most       = 2
	)
	out, some := make([]float64, len(perSecond)), false
	for i := range perSecond {
		from, to := max(0, i-neighbours), min(len(perSecond), i+neighbours+1)
		c2 := 0.0
		for range 6 { // the skewness depends on c
			excess, squares, sum, n := 0.0, 0.0, 0.0, 0.0
			for k := from; k < to; k++ {
				if m := perSecond[k]; m > 0 {
					z := 2.32 + .73*(1+2*c2*m)/math.Sqrt(m*(1+c2*m))
					excess += (highs[k]-m)*(highs[k]-m)/(z*z+.19) - m
					squares += m * m
					sum += m
					n++
				}
			}
			if n == 0 || sum/n < fewest || excess <= 0 {
				c2 = 0
				break
			}
			c2 = min(most*most, excess/squares)
		}
		out[i] = math.Sqrt(c2)
		some = some || c2 > 0
	}
	if !some {
		return nil
	}
	return out
}
