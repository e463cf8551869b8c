package trace

import (
	"errors"
	"io"

	"github.com/sigma-scheduler/sigma/binpack"
)

// Positions in pairColumns.
const (
	pairApp = iota
	pairOther
	pairBits
	pairPattern
)

// Names of patterns in pairs.csv.
const (
	allText    = "all"
	pairedText = "paired"
)

func (b *builder) readPairs(r io.Reader) error {
	rows, err := newTable(pairsFile, r, pairColumns)
	if err != nil {
		return err
	}
	app := func(column int) (int32, error) {
		i, ok := b.apps[rows.field(column)]
		if !ok {
			return 0, rows.badf(column, "unknown app")
		}
		return i, nil
	}
	type between struct{ app, other int32 }
	seen := map[between]bool{}
	for err = rows.next(); err == nil; err = rows.next() {
		var p binpack.Pair
		if p.App, err = app(pairApp); err != nil {
			return err
		}
		if p.Other, err = app(pairOther); err != nil {
			return err
		}
		if seen[between{p.App, p.Other}] {
			return rows.badf(pairOther, "the pair is given twice")
		}
		seen[between{p.App, p.Other}] = true
		if p.Bits, err = parseFloat(rows.field(pairBits)); err == nil && p.Bits <= 0 {
			err = errors.New("want a number above 0")
		}
		if err != nil {
			return rows.bad(pairBits, err)
		}
		switch rows.field(pairPattern) {
		case allText:
		case pairedText:
			p.Paired = true
		default:
			return rows.badf(pairPattern, "want %s or %s", allText, pairedText)
		}
		if p.Paired && p.App == p.Other {
			return rows.badf(pairPattern, "an app is not paired with itself")
		}
		b.instance.Pairs = append(b.instance.Pairs, p)
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func (t *Trace) encodePairs() []byte {
	l := newLine(pairColumns...)
	for _, p := range t.Instance.Pairs {
		l.text(t.Instance.Apps[p.App].Name)
		l.text(t.Instance.Apps[p.Other].Name)
		l.float(p.Bits)
		if p.Paired {
			l.text(pairedText)
		} else {
			l.text(allText)
		}
		l.end()
	}
	return l.buf
}
