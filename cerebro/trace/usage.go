package trace

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/sigma-scheduler/sigma/binpack"
)

const usageFile = "usage.csv.gz"

var usageColumns = []string{"app", "item", "dimension", "start", "step"}

// Positions in usageColumns.
const (
	usageApp = iota
	usageItem
	usageDimension
	usageStart
	usageStep
	usageFields
)

// A Series is the use of one dimension over time, by each item of an app or by some of them.
type Series struct {
	App, Dimension int32
	// Item is the name of a request for each of its items, or request/number for one of
	// several; empty = each item of the app that has no series of its own. An item that the
	// trace lacks, such as a former pod, counts in the history of the app alone.
	Item        string
	Start, Step float64 // seconds
	// Values are amounts of 1, such as cores and bytes; NaN = no sample.
	Values []float32
}

// At is the use at a time, NaN without a sample.
func (s *Series) At(at float64) float32 {
	const rounding = 1e-9
	i := math.Floor((at-s.Start)/s.Step + rounding)
	if !(i >= 0 && i < float64(len(s.Values))) {
		return float32(math.NaN())
	}
	return s.Values[int(i)]
}

// End is the time up to which the series has values.
func (s *Series) End() float64 { return s.Start + s.Step*float64(len(s.Values)) }

// A Usage is the measured use of the items of a trace. It is not part of the trace's digests.
type Usage struct{ Series []Series }

// Span is the time from the first sample to the end of the last.
func (u *Usage) Span() (from, until float64) {
	from, until = math.Inf(1), math.Inf(-1)
	sampled := func(v float32) bool { return v == v }
	for i := range u.Series {
		s := &u.Series[i]
		if first := slices.IndexFunc(s.Values, sampled); first >= 0 {
			last := len(s.Values) - 1
			for !sampled(s.Values[last]) {
				last--
			}
			from, until = min(from, s.Start+s.Step*float64(first)), max(until, s.Start+s.Step*float64(last+1))
		}
	}
	return from, until
}

// Items calls each for every series with the items that it is of, by request and number
// within it; all of an app's items without a series of their own, if number is negative.
func (u *Usage) Items(t *Trace, each func(s *Series, request, number int32)) {
	byName := make(map[string]int32, len(t.Requests))
	for i, q := range t.Requests {
		byName[q.Name] = int32(i)
	}
	for i := range u.Series {
		s := &u.Series[i]
		if s.Item == "" {
			each(s, -1, -1)
			continue
		}
		if request, first, count, ok, _ := itemsOf(t, byName, s.App, s.Item); ok {
			for number := first; number < first+count; number++ {
				each(s, request, number)
			}
		}
	}
}

// itemsOf finds the items that a field names; not ok = the trace lacks them. wrong means that
// the request is of another app, or has no such number.
func itemsOf(t *Trace, byName map[string]int32, app int32, item string) (request, first, count int32, ok, wrong bool) {
	if request, ok = byName[item]; ok {
		ok = t.Requests[request].App == app
		return request, 0, t.Requests[request].Count, ok, !ok
	}
	slash := strings.LastIndexByte(item, '/')
	if slash < 0 {
		return 0, 0, 0, false, false
	}
	number, err := strconv.ParseUint(item[slash+1:], 10, 31)
	if request, ok = byName[item[:slash]]; !ok || err != nil {
		return 0, 0, 0, false, false
	}
	ok = int32(number) < t.Requests[request].Count && t.Requests[request].App == app
	return request, int32(number), 1, ok, !ok
}

// A usageSource is the usage of a trace, read when it is first needed. Copies of the
// trace share it.
type usageSource struct {
	open  func() (io.ReadCloser, error)
	of    *Trace
	limit int64
	done  bool
	usage *Usage
	err   error
}

// Usage returns the content of usage.csv.gz; nil without the file. One goroutine at a time
// may call it.
func (t *Trace) Usage() (*Usage, error) {
	s := t.usage
	if s == nil {
		return nil, nil //nolint:nilnil // no file is no error
	}
	if !s.done && s.open != nil {
		r, err := s.open()
		if err == nil {
			s.usage, err = readUsage(s.of, r, s.limit)
			err = errors.Join(err, r.Close())
		}
		s.done, s.err = true, err
	}
	if s.err != nil {
		return nil, fmt.Errorf("trace %s: %w", s.of.Name, s.err)
	}
	return s.usage, nil
}

// SetUsage gives the trace a usage, or none.
func (t *Trace) SetUsage(u *Usage) {
	t.usage = nil
	if u != nil {
		t.usage = &usageSource{of: t, usage: u}
	}
}

const maxUsageRow = 16 << 20 // a year of minutes has 4 MiB

// readUsage reads usage.csv.gz of at most limit bytes when unpacked.
func readUsage(t *Trace, r io.Reader, limit int64) (*Usage, error) {
	return readSeries(t, usageFile, r, limit, nil)
}

// ReadUsage reads a file of the form of usage.csv.gz, of at most limit bytes when unpacked. It may have other apps than
// the trace: others is the number of their series.
func ReadUsage(t *Trace, file string, r io.Reader, limit int64) (u *Usage, others int, err error) {
	u, err = readSeries(t, file, r, limit, &others)
	return u, others, err
}

// readSeries reads the series of a file. With others it counts those of unknown apps, which are an error without.
func readSeries(t *Trace, usageFile string, r io.Reader, limit int64, others *int) (*Usage, error) {
	unpacked, err := Unpack(r, limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", usageFile, err)
	}
	input := bounded{unpacked, maxUsageRow, errors.New("the row after it has more than " + humanize.IBytes(maxUsageRow))}
	rows := csv.NewReader(bufio.NewReaderSize(&input, 1<<16))
	rows.FieldsPerRecord, rows.ReuseRecord = -1, true
	d := usageReader{trace: t, apps: map[string]int32{}, requests: map[string]int32{}, seen: map[usageKey]bool{}}
	for i, app := range t.Instance.Apps {
		d.apps[app.Name] = int32(i)
	}
	for i, q := range t.Requests {
		d.requests[q.Name] = int32(i)
	}
	u := &Usage{}
	for line := 0; ; {
		input.left = maxUsageRow
		record, err := rows.Read()
		if errors.Is(err, io.EOF) && line > 0 {
			return u, nil
		}
		if parse, ok := errors.AsType[*csv.ParseError](err); ok {
			return nil, fmt.Errorf("%s:%d: character %d: %w", usageFile, parse.Line, parse.Column, parse.Err)
		} else if err != nil && line == 0 {
			return nil, fmt.Errorf("%s:1: no header line: %w", usageFile, err)
		} else if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", usageFile, line, err)
		}
		first := line == 0
		line, _ = rows.FieldPos(0)
		if first {
			if !slices.Equal(record, usageColumns) {
				return nil, fmt.Errorf("%s:1: header %q: want %q", usageFile, strings.Join(record, ","), strings.Join(usageColumns, ","))
			}
			continue
		}
		if _, known := d.apps[record[usageApp]]; !known && others != nil {
			*others++
			continue
		}
		s, field, err := d.row(record)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %s: %w", usageFile, line, field, err)
		}
		u.Series = append(u.Series, s)
	}
}

// farthest bounds times of series, in seconds from 0, the year 1970 of many clocks: 300 years.
const farthest = 1e10

type usageKey struct {
	app, dimension, number int32
	item                   string
}

type usageReader struct {
	trace          *Trace
	apps, requests map[string]int32
	seen           map[usageKey]bool
}

// row reads one series. An error has the field where it is.
func (d *usageReader) row(record []string) (s Series, field string, err error) {
	bad := func(column int, format string, args ...any) (Series, string, error) {
		return Series{}, fmt.Sprintf("%s %q", usageColumns[column], record[column]), fmt.Errorf(format, args...)
	}
	if len(record) <= usageFields {
		return Series{}, "row", fmt.Errorf("%d fields: want the %d of the header and at least one value", len(record), usageFields)
	}
	var ok bool
	if s.App, ok = d.apps[record[usageApp]]; !ok {
		return bad(usageApp, "unknown app")
	}
	s.Item = strings.Clone(record[usageItem])
	request, first, count, known, wrong := itemsOf(d.trace, d.requests, s.App, s.Item)
	if wrong {
		return bad(usageItem, "the request is of another app, or has fewer items")
	}
	s.Dimension = int32(slices.IndexFunc(d.trace.Instance.Dimensions, func(dim binpack.Dimension) bool { return dim.Name == record[usageDimension] }))
	if s.Dimension < 0 {
		return bad(usageDimension, "unknown dimension")
	}
	for number := first; number < first+max(1, count); number++ {
		key := usageKey{s.App, s.Dimension, number, s.Item}
		if known { // web-1 has the item web-1/0
			key.item = d.trace.Requests[request].Name
		}
		if d.seen[key] {
			return bad(usageItem, "a second series of the dimension")
		}
		d.seen[key] = true
	}
	if s.Start, err = parseFloat(record[usageStart]); err == nil && math.Abs(s.Start) > farthest {
		err = fmt.Errorf("want at most %v seconds from time 0", float64(farthest))
	}
	if err != nil {
		return bad(usageStart, "%w", err)
	}
	if s.Step, err = parseFloat(record[usageStep]); err == nil && !(s.Step >= 1 && s.Step <= farthest) {
		err = errors.New("want at least 1 second") // a replay looks at each step
	}
	if err != nil {
		return bad(usageStep, "%w", err)
	}
	s.Values = make([]float32, len(record)-usageFields)
	for i, text := range record[usageFields:] {
		if text == "" {
			s.Values[i] = float32(math.NaN())
			continue
		}
		q, err := ParseQuantity(text)
		if err != nil {
			return Series{}, fmt.Sprintf("value %d %q", i+1, text), err
		}
		s.Values[i] = float32(q.Float())
	}
	return s, "", nil
}

// encodeUsage is usage.csv.gz. It fails for a series that the reader would refuse.
func (t *Trace) encodeUsage(u *Usage) ([]byte, error) {
	var b bytes.Buffer
	zipped := gzip.NewWriter(&b)
	l := newLine(usageColumns...)
	for i := range u.Series {
		s := &u.Series[i]
		l.text(t.Instance.Apps[s.App].Name)
		l.text(s.Item)
		l.text(t.Instance.Dimensions[s.Dimension].Name)
		l.float(s.Start)
		l.float(s.Step)
		for _, v := range s.Values {
			l.next()
			l.buf = appendUse(l.buf, v)
		}
		l.end()
		if _, err := zipped.Write(l.buf); err != nil {
			return nil, err
		}
		l.buf = l.buf[:0]
	}
	if _, err := zipped.Write(l.buf); err != nil { // of no series the header
		return nil, err
	}
	if err := zipped.Close(); err != nil {
		return nil, err
	}
	if _, err := readUsage(t, bytes.NewReader(b.Bytes()), 1<<40); err != nil {
		return nil, fmt.Errorf("the usage cannot be read back: %w", err)
	}
	return b.Bytes(), nil
}

// appendUse writes a value in the fewest letters that give the same value again.
func appendUse(buf []byte, v float32) []byte {
	switch {
	case v != v: // NaN: no sample
		return buf
	case v >= 1<<20 && v < 1<<50 && v == float32(int64(v)) && int64(v)%1024 == 0:
		return Quantity{int64(v), 0}.append(buf)
	}
	return strconv.AppendFloat(buf, float64(v), 'f', -1, 32)
}

// withUsage adds the usage to the canonical files.
func (t *Trace) withUsage(contents []content) ([]content, error) {
	u, err := t.Usage()
	if err != nil || u == nil {
		return contents, err
	}
	text, err := t.encodeUsage(u)
	if err != nil {
		return nil, err
	}
	return append(contents, content{usageFile, text}), nil
}
