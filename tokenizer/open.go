package tokenizer

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/rlxc/rlxc/internal/files"
)

// An Option changes what Open reads from the files.
type Option func(*definition) error

// Lowercase sets whether text is lower-cased, and overrides the files. Accents are stripped with lower-casing unless the files say
// otherwise. Open fails for tokenizers whose normalizer is not BERT's.
func Lowercase(on bool) Option {
	return func(d *definition) error {
		if d.bert == nil {
			return errors.New("Lowercase requires a tokenizer with a BertNormalizer")
		}
		d.bert.Lower = on
		return nil
	}
}

// LowercaseFirst lower-cases text before all other steps, unless the tokenizer does so anyway. It is do_lower_case of
// sentence-transformers' sentence_bert_config.json.
func LowercaseFirst() Option {
	return func(d *definition) error {
		d.lowerFirst = true
		return nil
	}
}

// AppendEnd appends the end token to each text if tokenizer_config.json asks for it (add_eos_token) and tokenizer.json does not do so. A
// model that takes the vector of the last token was trained with it.
func AppendEnd() Option {
	return func(d *definition) error {
		if !d.fromJSON {
			return nil
		}
		return d.config.appendEnd(d)
	}
}

// Open reads a tokenizer.json, a vocab.txt (any file not named .json, with a token on each line), or the one that a folder holds, where
// tokenizer.json takes precedence. Text is normalised as tokenizer.json says, or as by uncased BERT for vocab.txt.
//
// A tokenizer_config.json in the same folder overrides the settings that it names (do_lower_case, strip_accents, tokenize_chinese_chars),
// as in transformers. It also sets the maximum length of the model, the name of the padding token and, for vocab.txt, the other special
// tokens. Truncation and padding in tokenizer.json are ignored: the caller chooses both.
//
// An error names the file. If the file is a tokenizer of another kind, the error lists what is supported.
func Open(path string, options ...Option) (*Tokenizer, error) {
	return openIn(files.System{}, path, options)
}

// OpenFS reads a tokenizer as Open does, from a file or folder of a file system; "." is its root. It fails as Open does.
func OpenFS(fsys fs.FS, path string, options ...Option) (*Tokenizer, error) {
	return openIn(files.System{FS: fsys}, path, options)
}

func openIn(system files.System, path string, options []Option) (*Tokenizer, error) {
	file, err := locate(system, path)
	if err != nil {
		return nil, fmt.Errorf("tokenizer %s: %w", path, err)
	}
	t, err := open(system, file, options)
	if err != nil {
		return nil, fmt.Errorf("tokenizer %s: %w", file, err)
	}
	return t, nil
}

// fileNames are the files of a folder that Open takes, the first of them that is there.
var fileNames = []string{"tokenizer.json", "vocab.txt", "vocab.json", "sentencepiece.bpe.model", "spiece.model", "spm.model",
	"tokenizer.model"}

// locate returns the tokenizer's file: path, or the one in the folder path.
func locate(system files.System, path string) (string, error) {
	info, err := system.Stat(path)
	var missing *fs.PathError
	switch {
	case errors.As(err, &missing):
		return "", missing.Err
	case err != nil:
		return "", err
	case !info.IsDir():
		return path, nil
	}
	for _, name := range fileNames {
		file := filepath.Join(path, name)
		if _, err := system.Stat(file); err == nil {
			return file, nil
		}
	}
	return "", ErrNoFile
}

// ErrNoFile: a folder holds no file of a tokenizer.
var ErrNoFile = errors.New("it has no " + strings.Join(fileNames, ", no "))

// maxFile bounds a file, which is read whole: the largest that people use have some 40 MB.
const maxFile = 256 << 20

// readWhole reads a regular file of at most maxFile bytes. A pipe would be waited for, and a device may not end.
func readWhole(system files.System, file string) ([]byte, error) {
	info, err := system.Stat(file)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular() || info.Size() > maxFile:
		return nil, fmt.Errorf("%s is not a regular file of at most %d MiB", filepath.Base(file), maxFile>>20)
	}
	return system.ReadFile(file, maxFile)
}

func open(system files.System, file string, options []Option) (*Tokenizer, error) {
	data, err := readWhole(system, file)
	if err != nil {
		return nil, err
	}
	c, err := readConfig(system, filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	d, err := read(system, file, data, c)
	if err != nil {
		return nil, err
	}
	d.config = c
	if d.fromJSON {
		if err := c.applyJSON(d); err != nil {
			return nil, err
		}
	}
	c.apply(d)
	for _, option := range options {
		if err := option(d); err != nil {
			return nil, err
		}
	}
	return d.build()
}

// read reads a file by its name.
func read(system files.System, file string, data []byte, c *config) (*definition, error) {
	switch ext := filepath.Ext(file); {
	case strings.EqualFold(filepath.Base(file), "vocab.json"):
		return readBPE(system, file, data, c)
	case strings.EqualFold(ext, ".json"):
		return readTokenizerJSON(data)
	case strings.EqualFold(ext, ".model"):
		m, err := readSPM(data)
		if err != nil {
			return nil, err
		}
		return m.convert(c)
	}
	return readVocab(data, c)
}

func readTokenizerJSON(data []byte) (*definition, error) {
	f, err := readFile(data)
	if err != nil {
		return nil, err
	}
	d, err := f.define()
	if err == nil {
		d.fromJSON = true
	}
	return d, err
}
