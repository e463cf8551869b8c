package cli

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/sigma-scheduler/sigma/internal/complete"
)

// offered is what the shell is told for the last of the arguments, and the directive.
func offered(t *testing.T, args ...string) (words []string, directive int) {
	t.Helper()
	var out bytes.Buffer
	require.Zero(t, run(t.Context(), append([]string{cobra.ShellCompNoDescRequestCmd}, args...), &out, io.Discard))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	last := len(lines) - 1
	directive, err := strconv.Atoi(strings.TrimPrefix(lines[last], ":"))
	require.NoError(t, err)
	return lines[:last], directive
}

// enums are the flags that some command refuses unless they hold one of a few words.
func enums(t *testing.T) map[string]bool {
	t.Helper()
	packages, err := parser.ParseDir(token.NewFileSet(), ".", func(i fs.FileInfo) bool { return !strings.HasSuffix(i.Name(), "_test.go") }, 0) //nolint:staticcheck // no build tags here
	require.NoError(t, err)
	found := map[string]bool{"knowledge": true} // parseKnowledge
	ast.Inspect(packages["cli"], func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) < 3 {
			return true
		}
		if f, ok := call.Fun.(*ast.Ident); ok && f.Name == "oneOf" {
			name, err := strconv.Unquote(call.Args[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			found[name] = true
		}
		return true
	})
	require.Greater(t, len(found), 8)
	return found
}

// TestCompletion: the shell completes every flag; one of few words with words.
func TestCompletion(t *testing.T) {
	few := enums(t)
	seen := map[string]bool{}
	var walk func(cmd *cobra.Command, path []string)
	walk = func(cmd *cobra.Command, path []string) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() == "bool" {
				return
			}
			words, directive := offered(t, append(path, "--"+f.Name, "")...)
			name := strings.Join(path, " ") + " --" + f.Name
			if _, ok := cmd.GetFlagCompletionFunc(f.Name); !ok {
				t.Errorf("%s has no completion", name)
			}
			if few[f.Name] {
				seen[f.Name] = true
				if len(words) == 0 || directive != int(cobra.ShellCompDirectiveNoFileComp) {
					t.Errorf("%s offers %v (%d): want its words and no files", name, words, directive)
				}
				for word := range strings.FieldsSeq(strings.ReplaceAll(f.DefValue, "[]", "")) {
					require.Contains(t, words, word, name)
				}
			}
		})
		for _, c := range cmd.Commands() {
			if c.Name() != "completion" && c.Name() != "help" {
				walk(c, append(slices.Clip(path), c.Name()))
			}
		}
	}
	root := (&app{stdout: io.Discard, stderr: io.Discard}).root()
	require.Empty(t, complete.Flags(root), "flags that internal/complete does not know")
	walk(root, nil)
	require.Equal(t, few, seen, "a flag that no command has")
	unknown := &cobra.Command{Use: "sigma"}
	unknown.Flags().String("colour", "red", "red or green")
	require.Equal(t, []string{"sigma --colour"}, complete.Flags(unknown))
}

// TestCompletedValues: what is offered is what the command takes.
func TestCompletedValues(t *testing.T) {
	for _, c := range []struct {
		args  string // the last one is completed
		words string
	}{
		{"compare --format ", "table json markdown"},
		{"bound --format ", "table json"},
		{"compare --policy bestfit", "bestfit-cpu bestfit bestfit-l2 bestfit-fgd"},
		{"compare --policy firstfit,worst", "firstfit,worstfit"},
		{"replay --knowledge K", "K0 K0+clock K1 K1+clock K2"},
		{"train --optimizer ", "swarm cmaes random"},
		{"train --model plan --features s", "slack steps"},
		{"tune --for ", "live offline kube-scheduler eks aks"},
		{"rebalance --objective ", "machines cost"},
		{"snapshot --fleet ", "open fixed"},
		{"mpa simulate --generated ", "train test"},
		{"policy history --format ", "table json"},
		{"flow simulate --policy fair,las,s", "fair,las,srpt"},
		{"flow simulate --format ", "table json"},
		{"doctor --format ", "table json"},
	} {
		words, _ := offered(t, strings.Split(c.args, " ")...)
		require.Equal(t, c.words, strings.Join(words, " "), c.args)
	}
	words, directive := offered(t, "train", "--start", "")
	require.Equal(t, []string{"yaml", "yml"}, words)
	require.Equal(t, int(cobra.ShellCompDirectiveFilterFileExt), directive)
	_, directive = offered(t, "train", "--checkpoint", "")
	require.Equal(t, int(cobra.ShellCompDirectiveFilterDirs), directive)

	kubeconfig := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(kubeconfig, []byte("apiVersion: v1\nkind: Config\ncontexts: [{name: staging, context: {}}, {name: production, context: {}}]\n"), 0o600))
	words, _ = offered(t, "snapshot", "--kubeconfig", kubeconfig, "--context", "")
	require.Equal(t, []string{"production", "staging"}, words)
	t.Setenv("KUBECONFIG", kubeconfig)
	words, _ = offered(t, "doctor", "--context", "s")
	require.Equal(t, []string{"staging"}, words)
}
