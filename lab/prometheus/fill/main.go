// Fill writes the data folder of a Prometheus that has scraped made-up series for weeks. It
// reads one series a line of standard input, as JSON, and writes a block for each day of UTC.
//
//	fill --out DIR --interval 60s <series.jsonl
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
)

// A Series is one time series. Its values follow mean · (1 + swing · sin of the time of day) ·
// lognormal noise: of a gauge the value, of a counter the rate.
type Series struct {
	Labels             map[string]string
	Counter            bool
	From, Until        int64 // seconds since 1970; it has samples from the first to before the second
	Mean, Swing, Noise float64
	Seed               uint64
	Reset              int64 // seconds between resets of a counter; 0 = none
	Gaps               [][2]int64

	labels labels.Labels
	rng    *rand.Rand
	sum    float64
	last   int64
	offset int64 // of its scrapes, in ms
}

const day = 86400

func main() {
	out := flag.String("out", "", "folder to write")
	interval := flag.Duration("interval", time.Minute, "time between scrapes")
	flag.Parse()
	if err := fill(os.Stdin, *out, int64(*interval/time.Second)); err != nil {
		fmt.Fprintln(os.Stderr, "fill:", err)
		os.Exit(1)
	}
}

func fill(in io.Reader, out string, interval int64) error {
	var all []*Series
	from, until := int64(math.MaxInt64), int64(0)
	for rows := json.NewDecoder(bufio.NewReader(in)); ; {
		s := &Series{}
		if err := rows.Decode(s); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		s.labels = labels.FromMap(s.Labels)
		s.rng = rand.New(rand.NewPCG(s.Seed, 0))
		s.offset = s.rng.Int64N(1000 * interval)
		s.last = s.From
		from, until = min(from, s.From), max(until, s.Until)
		all = append(all, s)
	}
	for begin := from - from%day; begin < until; begin += day {
		if err := block(all, out, begin, interval); err != nil {
			return err
		}
	}
	return nil
}

// block writes one day.
func block(all []*Series, out string, begin, interval int64) error {
	w, err := tsdb.NewBlockWriter(slog.New(slog.DiscardHandler), out, 1000*day)
	if err != nil {
		return err
	}
	ctx, refs, written := context.Background(), make([]storage.SeriesRef, len(all)), 0
	for at := begin; at < begin+day; at += interval {
		a := w.Appender(ctx)
		for i, s := range all {
			v, ok := s.at(at)
			if !ok {
				continue
			}
			if refs[i], err = a.Append(refs[i], s.labels, min(1000*at+s.offset, 1000*(begin+day)-1), v); err != nil {
				return fmt.Errorf("%s: %w", s.labels, err)
			}
			written++
		}
		if err := a.Commit(); err != nil {
			return err
		}
	}
	if written > 0 {
		_, err = w.Flush(ctx)
	}
	return errors.Join(err, w.Close())
}

// at is the value at a time; times increase.
func (s *Series) at(at int64) (v float64, ok bool) {
	if at < s.From || at >= s.Until {
		return 0, false
	}
	v = s.Mean * (1 + s.Swing*math.Sin(2*math.Pi*float64(at)/day)) * math.Exp(s.Noise*s.rng.NormFloat64()-s.Noise*s.Noise/2)
	if s.Counter {
		if s.Reset > 0 && at/s.Reset != s.last/s.Reset {
			s.sum = 0
		}
		s.sum += v * float64(at-s.last)
		v = s.sum
	}
	s.last = at
	for _, g := range s.Gaps {
		if at >= g[0] && at < g[1] {
			return 0, false
		}
	}
	return v, true
}
