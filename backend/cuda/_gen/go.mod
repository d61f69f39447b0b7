module github.com/rlxc/rlxc/backend/cuda/_gen

go 1.26.0
