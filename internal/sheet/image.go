package sheet

import (
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// Image writes charts as an SVG file of their own, one below the other, with the names of their lines and their captions.
func Image(w io.Writer, charts ...Chart) error {
	const row = 28
	var b strings.Builder
	y := 0
	for _, c := range charts {
		svg := string(c.SVG())
		found := viewBox.FindStringSubmatch(svg)
		if found == nil {
			continue
		}
		height, _ := strconv.Atoi(found[1])
		b.WriteString(strings.Replace(svg, "<svg ", fmt.Sprintf(`<svg y="%d" width="%d" height="%d" `, y, Width, height), 1))
		y += height
		if l, ok := c.Plot.(LineChart); ok && len(l.Lines) > 1 {
			for i, line := range l.Lines {
				y += row
				fmt.Fprintf(&b, `<path class="line p%d" d="M%d %dh40"/><text x="%d" y="%d">%s</text>`, i, Margin, y-6, Margin+52, y, Escape(line.Label))
			}
		}
		y += row
		fmt.Fprintf(&b, `<text class="note" x="%d" y="%d">%s</text>`, Margin, y, Escape(c.Caption))
		y += row
	}
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d"><style>%s</style><rect class="paper" width="100%%" height="100%%"/>%s</svg>`+"\n", Width, y, imageStyle(), &b)
	return err
}

var (
	viewBox  = regexp.MustCompile(`viewBox="0 0 \d+ (\d+)"`)
	ofPlot   = regexp.MustCompile(`(?m)^(?:svg|\.[pb]\d) [^{]*\{[^}]*\}(?: \.[pb]\d \{[^}]*\})*`)
	root     = regexp.MustCompile(`(?s):root \{(.*?)\}`)
	variable = regexp.MustCompile(`(--\w+): ([^;]+);`)
)

// imageStyle is the part of the style that plots need, without variables, which few programs but browsers read.
func imageStyle() string {
	rules := strings.Join(ofPlot.FindAllString(style, -1), "\n") + "\nsvg .paper { fill: var(--paper); }\n"
	var themes [2]string // light and dark
	for i, block := range root.FindAllStringSubmatch(style, -1)[:2] {
		var values []string
		for _, v := range variable.FindAllStringSubmatch(block[1], -1) {
			values = append(values, "var("+v[1]+")", v[2])
		}
		themes[i] = strings.NewReplacer(values...).Replace(rules)
	}
	return "\n" + themes[0] + "@media (prefers-color-scheme: dark) {\n" + themes[1] + "}\n"
}
