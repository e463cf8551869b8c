package trace

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
)

// A table reads a CSV file with a header line row by row. Its errors name
// file, line and column.
type table struct {
	file    string
	input   bounded // to the end of the row that is read next
	csv     *csv.Reader
	columns []string // as requested
	at      []int    // at[column] is the position in the record; -1 when absent
	header  []string
	record  []string
}

// maxRow is the most bytes of a file that are read for one row, with the empty lines
// before it: a file with a line of 1 GiB is no trace.
const maxRow = 1 << 20

var errLongRow = errors.New("the row after it has more than " + humanize.IBytes(maxRow))

// newTable reads the header line: the columns in any order, each once. Those
// named optional may be absent and then read as empty.
func newTable(file string, r io.Reader, columns []string, optional ...string) (*table, error) {
	t := &table{file: file, input: bounded{r, maxRow, errLongRow}, columns: columns}
	t.csv = csv.NewReader(bufio.NewReaderSize(&t.input, 1<<16))
	t.csv.ReuseRecord = true
	header, err := t.csv.Read()
	switch {
	case err == io.EOF:
		return nil, fmt.Errorf("%s:1: no header line", file)
	case errors.Is(err, errLongRow):
		return nil, fmt.Errorf("%s:1: no header line within %s", file, humanize.IBytes(maxRow))
	case err != nil:
		return nil, t.located(err)
	}
	if strings.HasPrefix(header[0], "\ufeff") {
		return nil, fmt.Errorf("%s:1: the file begins with a byte order mark; save it as UTF-8 without one", file)
	}
	t.header = slices.Clone(header)
	t.at = make([]int, len(columns))
	for i, name := range columns {
		t.at[i] = slices.Index(t.header, name)
		if t.at[i] < 0 && !slices.Contains(optional, name) {
			return nil, fmt.Errorf("%s:1: missing column %q%s", file, name, oddHeader(header))
		}
	}
	for i, name := range t.header {
		if !slices.Contains(columns, name) {
			return nil, fmt.Errorf("%s:1: unknown column %q", file, name)
		}
		if slices.Index(t.header, name) != i {
			return nil, fmt.Errorf("%s:1: duplicate column %q", file, name)
		}
	}
	return t, nil
}

// oddHeader describes a possible change by a spreadsheet in a header line.
func oddHeader(header []string) string {
	if len(header) == 1 && strings.ContainsAny(header[0], ";\t") {
		return fmt.Sprintf(": fields are separated by commas, not as in %q", header[0])
	}
	return ""
}

// next reads one row; io.EOF after the last.
func (t *table) next() error {
	last := t.line()
	t.input.left = maxRow
	record, err := t.csv.Read()
	if err == nil {
		t.record = record
		return nil
	}
	if err == io.EOF {
		return err
	}
	if errors.Is(err, errLongRow) {
		return fmt.Errorf("%s:%d: %w", t.file, last, err)
	}
	if errors.Is(err, csv.ErrFieldCount) {
		line, _ := t.csv.FieldPos(0)
		if len(record) < len(t.header) {
			return fmt.Errorf("%s:%d: the line ends before %s: %d fields, want %d", t.file, line, t.header[len(record)], len(record), len(t.header))
		}
		return fmt.Errorf("%s:%d: %d fields, want %d", t.file, line, len(record), len(t.header))
	}
	return t.located(err)
}

// located adds the place to an error of the CSV reader.
func (t *table) located(err error) error {
	if parse, ok := errors.AsType[*csv.ParseError](err); ok {
		return fmt.Errorf("%s:%d: character %d: %w", t.file, parse.Line, parse.Column, parse.Err)
	}
	return fmt.Errorf("%s: reading: %w", t.file, err)
}

// field is the text of a column, valid until the next row.
func (t *table) field(column int) string {
	if i := t.at[column]; i >= 0 {
		return t.record[i]
	}
	return ""
}

func (t *table) line() int {
	line, _ := t.csv.FieldPos(0)
	return line
}

// bad returns the error of a column of this row.
func (t *table) bad(column int, err error) error {
	line := t.line()
	if i := t.at[column]; i >= 0 {
		line, _ = t.csv.FieldPos(i)
	}
	return fmt.Errorf("%s:%d: %s %q: %w", t.file, line, t.columns[column], t.field(column), err)
}

func (t *table) badf(column int, format string, args ...any) error {
	return t.bad(column, fmt.Errorf(format, args...))
}

// name is a column that identifies something.
func (t *table) name(column int) (string, error) {
	s := t.field(column)
	if err := checkName(s); err != nil {
		return "", t.bad(column, err)
	}
	return s, nil
}

// count is a column that holds a whole number of at least lowest.
func (t *table) count(column int, lowest int64) (int32, error) {
	n, err := strconv.ParseInt(t.field(column), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange) || n > math.MaxInt32:
		return 0, t.badf(column, "out of range")
	case err != nil:
		return 0, t.badf(column, "not a whole number")
	case n < lowest && lowest == 0:
		return 0, t.badf(column, "negative")
	case n < lowest:
		return 0, t.badf(column, "less than %d", lowest)
	}
	return int32(n), nil
}

// countOr is count, with a value for the empty text.
func (t *table) countOr(column int, empty int32) (int32, error) {
	if t.field(column) == "" {
		return empty, nil
	}
	return t.count(column, 0)
}

// amountOr is a column with a number of at least 0, or empty.
func (t *table) amountOr(column int, empty float64) (float64, error) {
	if t.field(column) == "" {
		return empty, nil
	}
	v, err := parseFloat(t.field(column))
	if err == nil && v < 0 {
		err = errNegative
	}
	if err != nil {
		return 0, t.bad(column, err)
	}
	return v, nil
}

// maxNumber is the largest time, cost or forecast: up to it whole numbers are
// exact, and integrals over a fleet are finite.
const maxNumber = 1 << 53

// parseFloat reads a decimal number.
func parseFloat(s string) (float64, error) {
	for i := range len(s) {
		// strconv also takes hexadecimal, infinity and NaN.
		switch c := s[i]; {
		case c >= '0' && c <= '9', c == '.', c == '-', c == '+', c == 'e', c == 'E':
		default:
			return 0, errors.New("not a finite decimal number")
		}
	}
	v, err := strconv.ParseFloat(s, 64)
	if errors.Is(err, strconv.ErrRange) || math.Abs(v) > maxNumber {
		return 0, errors.New("out of range")
	} else if err != nil {
		return 0, errors.New("not a finite decimal number")
	}
	if v == 0 {
		return 0, nil // -0 would print differently
	}
	return v, nil
}

// checkName refuses texts that a line of CSV, a log or a reader could not carry unchanged.
func checkName(s string) error {
	if s == "" {
		return errors.New("empty")
	}
	for i, r := range s {
		if r < utf8.RuneSelf && r >= ' ' && r != 0x7f {
			continue
		}
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(s[i:]); size == 1 {
				return errors.New("not valid UTF-8")
			}
		}
		if unicode.IsControl(r) {
			return fmt.Errorf("control character %U", r)
		}
	}
	return nil
}
