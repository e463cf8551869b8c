package collect

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// A query is the part of a PromQL expression that its freshness depends on. Prometheus' own
// parser is not used: its module changes the versions of most of Kubernetes' dependencies. If
// this reading is wrong, the server refuses the query for freshness, which becomes a problem.
type query struct {
	text      string
	selectors []string // of series, without range and offset
	// either is true if a selector may be without series.
	either bool
	window time.Duration // the longest range
}

// tokens of PromQL: comments, strings, matchers, ranges, names, numbers with their
// units, and everything else.
var tokens = regexp.MustCompile("#[^\n]*" +
	"|" + text +
	`|\{(?:` + text + `|[^}"'` + "`" + `])*\}` +
	`|\[[^\]]*\]` +
	`|[a-zA-Z_:][a-zA-Z0-9_:]*` +
	`|[0-9][0-9a-zA-Z_.]*` +
	`|\S`)

const text = `"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|` + "`[^`]*`"

var (
	listed      = []string{"by", "without", "on", "ignoring", "group_left", "group_right"}
	operators   = []string{"and", "or", "unless", "atan2", "bool", "offset", "inf", "nan"}
	aggregators = []string{
		"sum", "avg", "count", "min", "max", "group", "stddev", "stdvar", "topk", "bottomk", "count_values", "quantile", "limitk", "limit_ratio",
	}
)

// readQuery finds the selectors of an expression.
func readQuery(expression string) query {
	q := query{text: expression}
	list := slices.DeleteFunc(tokens.FindAllString(expression, -1), func(t string) bool { return t[0] == '#' })
	at := func(i int) string {
		if i < len(list) {
			return list[i]
		}
		return " "
	}
	for i := 0; i < len(list); i++ {
		token, lower := list[i], strings.ToLower(list[i])
		switch {
		case token[0] == '{':
			q.add(token)
		case token[0] == '[':
			window, _, _ := strings.Cut(strings.Trim(token, "[]"), ":")
			if d, err := model.ParseDuration(strings.TrimSpace(window)); err == nil {
				q.window = max(q.window, time.Duration(d))
			}
		case !isName(token):
		case slices.Contains(listed, lower):
			if at(i+1) == "(" {
				for i++; i < len(list) && list[i] != ")"; i++ {
				}
			}
		case at(i+1) == "(":
			q.either = q.either || lower == "absent" || lower == "absent_over_time"
		case slices.Contains(aggregators, lower) && slices.Contains(listed, strings.ToLower(at(i+1))):
		case slices.Contains(operators, lower):
			q.either = q.either || lower == "or" || lower == "unless"
		case at(i + 1)[0] == '{':
			q.add(token + list[i+1])
			i++
		default:
			q.add(token)
		}
	}
	return q
}

func isName(token string) bool {
	c := token[0]
	return c == '_' || c == ':' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func (q *query) add(selector string) {
	if !slices.Contains(q.selectors, selector) {
		q.selectors = append(q.selectors, selector)
	}
}

// selectorLabel numbers the selectors in the answer to freshness.
const selectorLabel = "mpa_selector"

// freshness returns an expression for the times of the newest samples: for each selector,
// by the labels.
func (q *query) freshness(by string) string {
	parts := make([]string, len(q.selectors))
	for i, s := range q.selectors {
		parts[i] = fmt.Sprintf(`label_replace(max by (%s) (timestamp(%s)), %q, "%d", "", "")`, by, s, selectorLabel, i)
	}
	return strings.Join(parts, " or ")
}
