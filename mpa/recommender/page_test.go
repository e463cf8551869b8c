package recommender

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a condition can give as the reason for not measuring or not deciding, the page tells
// what to do about.
func TestPageHasReasons(t *testing.T) {
	page, err := os.ReadFile("../../docs/mpa.md")
	require.NoError(t, err)
	files, err := filepath.Glob("../collect/*.go")
	require.NoError(t, err)
	// As an answer's or a problem's reason, and what refuse and say are called with.
	reason := regexp.MustCompile(`(?:reason: |Problem\{\w+, |refuse\(|say\(|return |, )"((?:[A-Z][a-z]+|API|A){2,})"[,})\n]`)
	found := 0
	for _, file := range append(files, "refuse.go", "decide.go") {
		if regexp.MustCompile(`_test\.go$`).MatchString(file) {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range reason.FindAllSubmatch(text, -1) {
			if word := string(m[1]); word != "StatefulSet" && word != "ReplicaSet" && word != "ReplicaSetList" {
				found++
				require.Regexp(t, `\b`+word+`\b`, string(page), "%s gives this reason", file)
			}
		}
	}
	require.Greater(t, found, 25)
}
