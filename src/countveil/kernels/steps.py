"""Which draw within a sweep: the ``step`` field of a stream. One number, one use, for ever."""

INIT = 0  # starting values, row by row
INIT_COLUMNS = 1
COUNTS = 2  # true counts and their allocation, row by row
NOISE_RATES = 3  # starting rates of the bessel method's noise, row by row
ROW_FACTOR = 4  # factors of the rows (topics: memberships)
COLUMN_FACTOR = 5  # factors of the columns (topics: word weights)
SCALE = 6  # scale moves, topic by topic
VISITED = 8  # true counts of cells visited one by one; the row is the cell
TRUE_COUNTS = 7  # posterior draws of true counts, after the fit
SHARES = 10  # tokens shared out over the remaining indices of a factorization; the row is the cell
FACTOR = 11  # any factor of a factorization; the row is the factor's number and its row
TIED_FACTOR = 12  # a factor on two axes, row after row; the row likewise
VISITED_MANY = 16  # allocation of visited cells with many tokens; the row is the cell
GENERATOR = 255  # numpy generators handed to a user's own model
