module github.com/sigma-scheduler/sigma

go 1.26
