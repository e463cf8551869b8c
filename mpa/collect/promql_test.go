package collect

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestReadQuery(t *testing.T) {
	for _, test := range []struct {
		query     string
		selectors []string
		either    bool
		window    time.Duration
	}{
		{query: `up`, selectors: []string{"up"}},
		{query: `vector(1)`},
		{query: `2 * 3.5e2`},
		{query: `sum(rate(http_requests_total{ns="a", code!~"5..|}"}[1m]))`, selectors: []string{`http_requests_total{ns="a", code!~"5..|}"}`}, window: time.Minute},
		{
			query:     `histogram_quantile(0.99, sum by (le) (rate(seconds_bucket{app='web'}[1m30s] offset 5m)))`,
			selectors: []string{`seconds_bucket{app='web'}`}, window: 90 * time.Second,
		},
		{
			query:     "sum without (pod) (a) / on (b, c) group_left (d) sum(e{f=\"}\\\"\"}) by (g) # h",
			selectors: []string{"a", `e{f="}\""}`},
		},
		{query: "sum BY (le) (a) or vector(0)", selectors: []string{"a"}, either: true},
		{query: "a unless b", selectors: []string{"a", "b"}, either: true},
		{query: "a and bool b", selectors: []string{"a", "b"}},
		{query: `{__name__="a", b="c"}`, selectors: []string{`{__name__="a", b="c"}`}},
		{query: "max_over_time(rate(a[1m])[10m:30s])", selectors: []string{"a"}, window: 10 * time.Minute},
		{query: "a {b=`}`} @ end() + a{b=`}`}", selectors: []string{"a{b=`}`}"}},
		{query: `label_replace(up, "pod", "$1", "instance", "(.*)")`, selectors: []string{"up"}},
		{query: "job:rate:sum5m > 0x1F", selectors: []string{"job:rate:sum5m"}},
		{query: "1 - absent(a)", selectors: []string{"a"}, either: true},
		{query: "sum", selectors: []string{"sum"}},
		{query: `{`, selectors: []string{"{"}}, // the server refuses these
		{query: `a{b="`, selectors: []string{"a{", "b"}},
		{query: "by (", selectors: nil},
	} {
		t.Run(test.query, func(t *testing.T) {
			q := readQuery(test.query)
			assert.Equal(t, test.selectors, q.selectors)
			assert.Equal(t, test.either, q.either)
			assert.Equal(t, test.window, q.window)
		})
	}
}

func TestFreshness(t *testing.T) {
	q := readQuery(`sum(rate(a{b="c"}[1m])) / sum(d)`)
	assert.Equal(t, `label_replace(max by () (timestamp(a{b="c"})), "mpa_selector", "0", "", "")`+
		` or label_replace(max by () (timestamp(d)), "mpa_selector", "1", "", "")`, q.freshness(""))
}

func FuzzReadQuery(f *testing.F) {
	f.Add(`sum by (le) (rate(a{b="}"}[1m:])) or {c=~'d'} # e`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range readQuery(text).selectors {
			if s == "" {
				t.Errorf("an empty selector in %q", text)
			}
		}
	})
}
